// What goes along the rows of a sequence: short convolutions and the gated delta rule.
#include <algorithm>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

constexpr int kChannels = 64;  // of a group

int sequences(const View& states) { return states.data ? int(states.shape[0]) : 0; }

// x, w, b?, tail?, seq, pos
void causal_conv(Launches& to, const KernelCall& c) noexcept {
  const int N = int(c.in[0].shape[0]), C = int(c.in[0].shape[1]), W = int(c.in[1].shape[1]);
  to.add(Kernel::causal_conv, {N, blocks(C, kChannels)},
         {to.fault(), to.call(), in(c, 0), in(c, 1), in(c, 2), in(c, 3), in(c, 4), in(c, 5), out(c, 0), C, W,
          sequences(c.in[3])});
}

// Rows of a chunk of the filters' gradients: so many that the sums of chunks are a few times the rows.
int64_t rows_of_chunk(int64_t taps) { return 64 * ((taps + 15) / 16); }
// x, w, dy, tail?, seq, pos
void causal_conv_grad(Launches& to, const KernelCall& c) noexcept {
  const int N = int(c.in[0].shape[0]), C = int(c.in[0].shape[1]), W = int(c.in[1].shape[1]);
  const int S = sequences(c.in[3]), rows = int(rows_of_chunk(W)), chunks = blocks(N, rows), weights = C * W;
  to.add(Kernel::causal_conv_grad_x, {N, blocks(C, kChannels)},
         {to.fault(), to.call(), in(c, 1), in(c, 2), in(c, 3), in(c, 4), in(c, 5), out(c, 0), N, C, W, S});
  float* const dw = c.out[1].data ? static_cast<float*>(c.workspace) : nullptr;
  float* const db = c.out[2].data ? static_cast<float*>(c.workspace) + int64_t(chunks) * weights : nullptr;
  if (!dw && !db) return;
  to.add(Kernel::causal_conv_grad_w, {blocks(int64_t(C) * (W + 1), kChannels), chunks},
         {in(c, 0), in(c, 2), in(c, 3), in(c, 4), in(c, 5), dw, db, N, C, W, S, rows});
  if (dw) to.add(Kernel::sum_chunks, {blocks(weights, 256)}, {dw, out(c, 1), chunks, weights});
  if (db) to.add(Kernel::sum_chunks, {blocks(C, 256)}, {db, out(c, 2), chunks, C});
}
size_t chunks_of_filters(const KernelQuery& q) noexcept {
  const int64_t N = q.in[0].shape[0], C = q.in[0].shape[1], W = q.in[1].shape[1];
  return size_t(blocks(N, rows_of_chunk(W)) * C * (W + 1)) * sizeof(float);
}

// tail, x, seq, pos
void conv_append(Launches& to, const KernelCall& c) noexcept {
  const Shape& tail = c.in[0].shape;
  const int N = int(c.in[1].shape[0]), C = int(tail[2]);
  to.add(Kernel::conv_append, {N, blocks(C, kChannels)},
         {to.fault(), to.call(), out(c, 0), in(c, 1), in(c, 2), in(c, 3), N, C, int(tail[1]), int(tail[0])});
}

// ---- the gated delta rule

// q, k, v, g and beta are inputs `first`, first + 1, ....
template <class Operands>
Delta sizes_of(const Operands& in, size_t first, bool states, const Shape& state, const DeltaRuleAttrs& at) {
  const Shape &k = in[first + 1].shape, &v = in[first + 2].shape;
  Delta d{int(k[0]),
          int(k[1]),
          int(k[2]),
          int(v[1]),
          int(v[2]),
          states ? int(state[0]) : -1,
          in[first + 3].shape.rank() == 3,
          at.heads == HeadMap::tile,
          at.delta,
          8};
  while (d.parts * ELEMENTS_OF_A_STATE < d.P) d.parts *= 2;
  return d;
}
int columns_of(const Delta& d) { return 256 / d.parts; }
constexpr int kGroups = 64, kGroupsOfGrad = 8;  // of chains, at most

// s0: states before; s: after, may be the same memory.
void forward(Launches& to, const KernelCall& c, size_t first, size_t seq, const View& states, const Arg& s0,
             const Arg& s, const Arg& o) {
  const Delta d = sizes_of(c.in, first, states.data, states.shape, c.attrs->as<DeltaRuleAttrs>());
  const int groups = std::min(d.N, kGroups);
  to.add(Kernel::delta_runs, {}, {to.fault(), to.call(), in(c, seq), in(c, seq + 1), c.workspace, d.N, d.S, 1});
  to.add(Kernel::gated_delta, {groups, d.H, blocks(d.V, columns_of(d))},
         {in(c, first), in(c, first + 1), in(c, first + 2), in(c, first + 3), in(c, first + 4), s0, s, o, in(c, seq),
          in(c, seq + 1), c.workspace, groups, d});
}
void copy_states(Launches& to, const View& from, const Arg& y) {
  const int64_t n = from.count();
  if (from.data && y.memory() && from.data != y.memory())
    to.add(Kernel::copy_strided, {blocks(n, ELEMENTS_OF_A_GROUP)},
           {from.data, y, n, int(sizeof(float)), Strided{{1, 1, 1, 1, n}, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {}}});
}
// q, k, v, g, beta, s0?, seq, pos
void gated_delta_rule(Launches& to, const KernelCall& c) noexcept {
  const Arg s = c.in[5].data ? out(c, 1) : Arg(nullptr);
  copy_states(to, c.in[5], s);
  forward(to, c, 0, 6, c.in[5], in(c, 5), s, out(c, 0));
}
// s, q, k, v, g, beta, seq, pos
void gated_delta_rule_update(Launches& to, const KernelCall& c) noexcept {
  forward(to, c, 1, 6, c.in[0], out(c, 0), out(c, 0), out(c, 1));
}
size_t runs_bytes(int64_t rows) { return size_t(4 + rows / 4 * 4 + 4 * rows) * sizeof(int32_t); }  // gated_delta.h
template <size_t first>
size_t runs_of_rows(const KernelQuery& q) noexcept {
  return runs_bytes(q.in[first].shape[0]);
}

// The memory of the gradient's kernels, in floats after the list of runs.
struct DeltaMemory {
  int64_t kept, inside, part;  ///< of these the gradients of q and k for each value head, where they share key heads
  explicit DeltaMemory(const Delta& d)
      : kept(int64_t(d.N / ROWS_OF_A_STATE + 1) * d.H * d.P * columns_of(d)),
        inside(int64_t(std::min(d.N, kGroupsOfGrad)) * d.H * 2 * ROWS_OF_A_STATE * d.P * columns_of(d)),
        part(d.H == d.K ? 0 : int64_t(d.N) * d.H * d.P) {}
};
// q, k, v, g, beta, s0?, do?, ds?, seq, pos
void gated_delta_rule_grad(Launches& to, const KernelCall& c) noexcept {
  const View &s0 = c.in[5], &ds = c.in[7];
  const Delta d = sizes_of(c.in, 0, s0.data, s0.shape, c.attrs->as<DeltaRuleAttrs>());
  const DeltaMemory memory(d);
  float* const kept = reinterpret_cast<float*>(static_cast<std::byte*>(c.workspace) + runs_bytes(d.N));
  float *const inside = kept + memory.kept, *const part = inside + memory.inside;
  const bool shared = d.H != d.K;
  const Arg dq = shared ? Arg(part) : out(c, 0), dk = shared ? Arg(part + memory.part) : out(c, 1);
  const Arg ds0 = s0.data ? out(c, 5) : Arg(nullptr);
  const int64_t states = s0.data ? s0.count() : 0;
  if (ds.data)
    copy_states(to, ds, ds0);
  else if (ds0.memory())
    to.add(Kernel::fill, {blocks(states, ELEMENTS_OF_A_GROUP)}, {ds0, states, uint32_t(0)});
  to.add(Kernel::delta_runs, {}, {to.fault(), to.call(), in(c, 8), in(c, 9), c.workspace, d.N, d.S, 0});
  const int groups = std::min(d.N, kGroupsOfGrad);
  for (int block = 0; block < blocks(d.V, columns_of(d)); ++block)
    to.add(Kernel::gated_delta_grad, {groups, d.H},
           {in(c, 0),  in(c, 1),  in(c, 2),    in(c, 3), in(c, 4), in(c, 5), in(c, 6), in(c, 7),
            in(c, 8),  in(c, 9),  c.workspace, kept,     inside,   dq,       dk,       out(c, 2),
            out(c, 3), out(c, 4), ds0,         groups,   block,    d});
  if (!shared) return;
  to.add(Kernel::sum_heads, {d.N, d.K}, {dq, out(c, 0), d.K, d.H, d.P, d.tile});
  to.add(Kernel::sum_heads, {d.N, d.K}, {dk, out(c, 1), d.K, d.H, d.P, d.tile});
}
size_t grad_workspace(const KernelQuery& q) noexcept {
  const Delta d = sizes_of(q.in, 0, q.in[5].present, q.in[5].shape, DeltaRuleAttrs{});
  const DeltaMemory memory(d);
  return runs_bytes(d.N) + size_t(memory.kept + memory.inside + 2 * memory.part) * sizeof(float);
}
template <size_t keys>
bool fits(const KernelQuery& q) noexcept {
  return q.in[keys].dtype == DType::f32 && q.in[keys].shape[2] <= WIDEST_STATE;
}

}  // namespace

KernelRecord causal_conv_kernel() { return {.op = "causal_conv", .code = causal_conv}; }
KernelRecord causal_conv_grad_kernel() {
  return {.op = "causal_conv_grad", .workspace = chunks_of_filters, .code = causal_conv_grad};
}
KernelRecord conv_append_kernel() { return {.op = "conv_append", .in_place = {{0, 0}}, .code = conv_append}; }
KernelRecord gated_delta_rule_kernel() {
  return {.op = "gated_delta_rule",
          .in_place = {{1, 5}},
          .accepts = fits<1>,
          .workspace = runs_of_rows<0>,
          .code = gated_delta_rule};
}
KernelRecord gated_delta_rule_update_kernel() {
  return {.op = "gated_delta_rule_update",
          .in_place = {{0, 0}},
          .accepts = fits<2>,
          .workspace = runs_of_rows<1>,
          .code = gated_delta_rule_update};
}
KernelRecord gated_delta_rule_grad_kernel() {
  return {
      .op = "gated_delta_rule_grad", .accepts = fits<1>, .workspace = grad_workspace, .code = gated_delta_rule_grad};
}

}  // namespace toy::gpu

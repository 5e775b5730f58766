// Attention among the rows of a batch and over pages of a cache, and writing to these.
#include <cmath>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

constexpr int kRows = 16;  // of a tile: ROWS of attention.h

int parts_of(int width) { return blocks(width, COLUMNS_OF_A_HEAD); }
bool is_cache(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::q8_0; }

// Of the cache: its pages, sequences, and pages of one of them.
void add(Launches& to, const KernelCall& c, const Arg& k, const Arg& v, int kv_heads, size_t seq, const Arg& table,
         int type, int pages, int sequences, int pages_of_one) {
  const Shape& q = c.in[0].shape;
  const auto& at = c.attrs->as<AttentionAttrs>();
  const int N = int(q[0]), heads = int(q[1]), width = int(q[2]);
  to.add(Kernel::attention, {blocks(int64_t(N) * (heads / kv_heads), kRows), kv_heads, parts_of(width)},
         {to.fault(),
          to.call(),
          in(c, 0),
          k,
          v,
          in(c, seq),
          in(c, seq + 1),
          table,
          out(c, 0),
          out(c, 1),
          N,
          heads,
          kv_heads,
          width,
          type,
          pages,
          sequences,
          pages_of_one,
          int(at.window),
          float(at.scale),
          float(at.softcap)});
}

void attention(Launches& to, const KernelCall& c) noexcept {
  add(to, c, in(c, 1), in(c, 2), int(c.in[1].shape[1]), 3, nullptr, WEIGHT_F32, 0, 0, 0);
}
void attention_paged(Launches& to, const KernelCall& c) noexcept {
  const View &kc = c.in[1], &table = c.in[5];
  add(to, c, in(c, 1), in(c, 2), int(kc.shape[1]), 3, in(c, 5), weight_type(kc.dtype), int(kc.shape[0]),
      int(table.shape[0]), int(table.shape[1]));
}
bool takes_pages(const KernelQuery& q) noexcept { return q.in[0].dtype == DType::f32 && is_cache(q.in[1].dtype); }

void kv_append(Launches& to, const KernelCall& c) noexcept {
  const View &kc = c.in[0], &k = c.in[2], &table = c.in[6];
  const int group = c.in[7].data ? int(c.in[7].shape[1] / k.shape[1]) : 0;
  to.add(Kernel::kv_append, {int(k.shape[0]), int(k.shape[1])},
         {to.fault(), to.call(), out(c, 0), out(c, 1), in(c, 2), in(c, 3), in(c, 4), in(c, 5), in(c, 6), in(c, 7),
          weight_type(kc.dtype), int(kc.shape[0]), int(k.shape[1]), int(k.shape[2]), int(table.shape[0]),
          int(table.shape[1]), group});
}
bool appends(const KernelQuery& q) noexcept {
  if (q.in[7].present && q.in[7].shape[2] > WIDEST_KEY) return false;
  return q.in[2].dtype == DType::f32 && is_cache(q.in[0].dtype);
}

// The largest power of two that divides the width of a head.
int64_t hadamard_block(const Shape& x) { return x[2] & -x[2]; }
void hadamard(Launches& to, const KernelCall& c) noexcept {
  const int64_t block = hadamard_block(c.in[0].shape);
  to.add(Kernel::hadamard, {int(c.in[0].count() / block)},
         {in(c, 0), out(c, 0), int(block), 1.0f / std::sqrt(float(block))});
}
bool turns(const KernelQuery& q) noexcept {
  const int64_t block = hadamard_block(q.in[0].shape);
  return q.in[0].dtype == DType::f32 && block > 0 && block <= WIDEST_KEY;
}

void attention_mask(Launches& to, const KernelCall& c) noexcept {
  const int N = int(c.in[0].shape[0]);
  to.add(Kernel::attention_mask, {N},
         {in(c, 0), in(c, 1), in(c, 2), out(c, 0), N, int(c.attrs->as<AttentionAttrs>().window)});
}

// Rows that see keys after them take the decomposition, and so does ALiBi.
template <size_t until>
bool is_causal(const KernelQuery& q) noexcept {
  return q.in[0].dtype == DType::f32 && (q.in.size() <= until || !q.in[until].present) &&
         !q.attrs.as<AttentionAttrs>().alibi;
}

// q, k, v, o, lse, do, seq, pos, dlse?
void attention_grad(Launches& to, const KernelCall& c) noexcept {
  const Shape& q = c.in[0].shape;
  const auto& at = c.attrs->as<AttentionAttrs>();
  const int N = int(q[0]), heads = int(q[1]), width = int(q[2]), kv_heads = int(c.in[1].shape[1]);
  const Arg delta = c.workspace;
  to.add(Kernel::attention_delta, {blocks(int64_t(N) * heads, 64)},
         {in(c, 3), in(c, 5), in(c, 8), delta, N * heads, width});
  const int window = int(at.window);
  const float scale = float(at.scale), softcap = float(at.softcap);
  to.add(Kernel::attention_grad_q, {blocks(N, kRows), heads, parts_of(width)},
         {in(c, 0), in(c, 1), in(c, 2), in(c, 4), in(c, 5), delta, in(c, 6), in(c, 7), out(c, 0), out_type(c, 0), N,
          heads, kv_heads, width, window, scale, softcap});
  to.add(Kernel::attention_grad_kv, {blocks(N, kRows), kv_heads, parts_of(width)},
         {in(c, 0), in(c, 1), in(c, 2), in(c, 4), in(c, 5), delta, in(c, 6), in(c, 7), out(c, 1), out_type(c, 1),
          out(c, 2), out_type(c, 2), N, heads, kv_heads, width, window, scale, softcap});
}
size_t deltas(const KernelQuery& q) noexcept { return size_t(q.in[0].shape[0] * q.in[0].shape[1]) * sizeof(float); }

}  // namespace

KernelRecord attention_kernel() { return {.op = "attention", .accepts = is_causal<5>, .code = attention}; }
KernelRecord attention_mask_kernel() { return {.op = "attention_mask", .code = attention_mask}; }
KernelRecord attention_grad_kernel() {
  return {.op = "attention_grad",
          .rounds = {0, 1, 2},
          .accepts = is_causal<9>,
          .workspace = deltas,
          .code = attention_grad};
}
KernelRecord attention_paged_kernel() {
  return {.op = "attention_paged", .accepts = takes_pages, .code = attention_paged};
}
KernelRecord hadamard_kernel() { return {.op = "hadamard", .in_place = {{0, 0}}, .accepts = turns, .code = hadamard}; }
KernelRecord kv_append_kernel() {
  return {.op = "kv_append", .in_place = {{0, 0}, {1, 1}}, .accepts = appends, .code = kv_append};
}

}  // namespace toy::gpu

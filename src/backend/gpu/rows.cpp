// Ops that go row by row, or line by line along an axis.
#include <algorithm>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

constexpr int kRowsOfAChunk = 64;  // of rms_norm_grad_w

void rms_norm(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::rms_norm, {int(rows_of(c.in[0]))},
         {in(c, 0), in(c, 1), out(c, 0), out_type(c, 0), int(c.in[0].shape.back()), c.attrs->as<RmsNormAttrs>().eps});
}
void rms_norm_grad(Launches& to, const KernelCall& c) noexcept {
  const int N = int(rows_of(c.in[0])), D = int(c.in[0].shape.back()), chunks = blocks(N, kRowsOfAChunk);
  float *const rstds = static_cast<float*>(c.workspace), *const partial = rstds + N;
  to.add(Kernel::rms_norm_grad_x, {N},
         {in(c, 0), in(c, 1), in(c, 2), out(c, 0), out_type(c, 0), rstds, D, c.attrs->as<RmsNormAttrs>().eps});
  if (c.out.size() < 2 || !c.out[1].data) return;
  to.add(Kernel::rms_norm_grad_w, {blocks(D, 256), chunks}, {in(c, 0), in(c, 2), rstds, partial, N, D});
  to.add(Kernel::sum_chunks, {blocks(D, 256)}, {partial, out(c, 1), chunks, D});
}
size_t rstds_and_chunks(const KernelQuery& q) noexcept {
  const int64_t D = q.in[0].shape.back(), N = D > 0 ? q.in[0].shape.count() / D : 0;
  return size_t(N + blocks(N, kRowsOfAChunk) * D) * sizeof(float);
}

void rope(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<RopeAttrs>();
  const Shape &x = c.in[0].shape, &table = c.in[2].shape;
  to.add(Kernel::rope, {int(x[0])},
         {to.fault(), to.call(), in(c, 0), in(c, 1), in(c, 2), out(c, 0), out_type(c, 0), int(x[1]), int(x[2]),
          int(table[0]), int(table[1]), int(at.pairing == RopePairing::neighbour), at.inverse ? -1.0f : 1.0f});
}

void embedding(Launches& to, const KernelCall& c) noexcept {
  const View& table = c.in[0];
  to.add(Kernel::embedding, {int(c.in[1].count())},
         {to.fault(), to.call(), in(c, 0), in(c, 1), out(c, 0), weight_type(table.dtype), int(table.shape[0]),
          int(table.shape[1])});
}
bool reads_table(const KernelQuery& q) noexcept {
  return weight_type(q.in[0].dtype) >= 0 && q.out[0].dtype == DType::f32;
}
void embedding_grad(Launches& to, const KernelCall& c) noexcept {
  const int N = int(c.in[1].count());
  to.add(Kernel::embedding_grad, {N},
         {to.fault(), to.call(), in(c, 0), in(c, 1), out(c, 0), N, int(c.in[2].shape[0]), int(c.in[2].shape[1])});
}
void one_hot(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::one_hot, {int(c.in[0].count())},
         {to.fault(), to.call(), in(c, 0), out(c, 0), int(c.attrs->as<OneHotAttrs>().classes)});
}

void softmax(Launches& to, const KernelCall& c) noexcept {
  to.add(Kernel::softmax, {int(rows_of(c.in[0]))}, {in(c, 0), out(c, 0), int(c.in[0].shape.back())});
}

// The lines of x along an axis, and where each begins in x and in y.
Strided lines_of(const View& x, const View& y, int axis) {
  Strided s{{1, 1, 1, 1, 1}, {}, {}, {}};
  const int rank = x.shape.rank();
  for (int d = 0; d < rank; ++d) {
    if (d == axis) continue;
    const size_t at = size_t(5 - rank + d);
    s.shape[at] = x.shape[d], s.a[at] = x.stride[size_t(d)], s.b[at] = y.stride[size_t(d)];
  }
  return s;
}
int64_t count_of(const Strided& s) { return s.shape[0] * s.shape[1] * s.shape[2] * s.shape[3] * s.shape[4]; }

template <bool max>
void reduce(Launches& to, const KernelCall& c) noexcept {
  constexpr int kLong = 128;  // a group shares longer lines
  const int axis = c.attrs->as<AxisAttrs>().axis;
  const View& x = c.in[0];
  const Strided s = lines_of(x, c.out[0], axis);
  const int length = int(x.shape[axis]);
  const int64_t stride = x.stride[size_t(axis)], lines = count_of(s);
  if (length >= kLong)
    to.add(Kernel::reduce_line, {int(lines)}, {in(c, 0), out(c, 0), length, stride, int(max), s});
  else
    to.add(Kernel::reduce_lines, {blocks(lines, 64)}, {in(c, 0), out(c, 0), lines, length, stride, int(max), s});
}
void cumsum(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<CumsumAttrs>();
  const View &x = c.in[0], &y = c.out[0];
  const Strided s = lines_of(x, y, at.axis);
  const int64_t lines = count_of(s);
  to.add(Kernel::cumsum, {blocks(lines, 64)},
         {in(c, 0), out(c, 0), lines, int(x.shape[at.axis]), x.stride[size_t(at.axis)], y.stride[size_t(at.axis)],
          int(at.reverse), s});
}

// Groups that share a row; 0: it is one item's.
int parts_of_top_k(int64_t E, int64_t k) {
  constexpr int64_t kFewSteps = 1 << 16;  // of an item
  if (k * k * E <= kFewSteps || k > TILE_OF_TOP_K / 2) return 0;
  return std::min(blocks(E, TILE_OF_TOP_K), int(TILE_OF_TOP_K / k));
}
void top_k(Launches& to, const KernelCall& c) noexcept {
  const int N = int(c.in[0].shape[0]), E = int(c.in[0].shape[1]), k = int(c.attrs->as<TopKAttrs>().k);
  const int parts = parts_of_top_k(E, k);
  if (k == 1) return to.add(Kernel::largest, {N}, {in(c, 0), out(c, 0), out(c, 1), E});
  if (parts == 0) return to.add(Kernel::top_k, {blocks(N, 64)}, {in(c, 0), out(c, 0), out(c, 1), N, E, k});
  if (parts == 1) return to.add(Kernel::top_k_of_tiles, {N}, {in(c, 0), nullptr, out(c, 0), out(c, 1), E, E, k, parts});
  to.add(Kernel::top_k_of_tiles, {N * parts}, {in(c, 0), nullptr, nullptr, c.workspace, E, E, k, parts});
  to.add(Kernel::top_k_of_tiles, {N}, {in(c, 0), c.workspace, out(c, 0), out(c, 1), E, parts * k, k, 1});
}
size_t best_of_parts(const KernelQuery& q) noexcept {
  const int64_t k = q.attrs.as<TopKAttrs>().k;
  const int parts = parts_of_top_k(q.in[0].shape[1], k);
  return parts > 1 ? size_t(q.in[0].shape[0] * parts * k) * sizeof(int32_t) : 0;
}

}  // namespace

KernelRecord rms_norm_kernel() { return {.op = "rms_norm", .in_place = {{0, 0}}, .rounds = {0}, .code = rms_norm}; }
KernelRecord rms_norm_grad_kernel() {
  return {.op = "rms_norm_grad", .rounds = {0}, .workspace = rstds_and_chunks, .code = rms_norm_grad};
}
KernelRecord rope_kernel() { return {.op = "rope", .in_place = {{0, 0}}, .rounds = {0}, .code = rope}; }
KernelRecord embedding_kernel() { return {.op = "embedding", .accepts = reads_table, .code = embedding}; }
KernelRecord embedding_grad_kernel() { return {.op = "embedding_grad", .in_place = {{0, 2}}, .code = embedding_grad}; }
KernelRecord one_hot_kernel() { return {.op = "one_hot", .code = one_hot}; }
KernelRecord softmax_kernel() { return {.op = "softmax", .in_place = {{0, 0}}, .code = softmax}; }
KernelRecord sum_kernel() { return {.op = "sum", .layout = Layout::any, .code = reduce<false>}; }
KernelRecord max_kernel() { return {.op = "max", .layout = Layout::any, .code = reduce<true>}; }
KernelRecord top_k_kernel() { return {.op = "top_k", .workspace = best_of_parts, .code = top_k}; }
KernelRecord cumsum_kernel() { return {.op = "cumsum", .layout = Layout::any, .code = cumsum}; }

}  // namespace toy::gpu

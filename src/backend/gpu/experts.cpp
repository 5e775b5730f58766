// Linear maps of rows by the experts that they were routed to.
#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

// Lists of the pairs of each expert, in workspace.
struct Lists {
  int* begins;
  int* order;
  Lists(const KernelCall& c, int64_t E) : begins(static_cast<int*>(c.workspace)), order(begins + E + 1) {}
  static size_t bytes(int64_t E, const Shape& ids) { return size_t(E + 1 + ids.count()) * sizeof(int32_t); }
};
Lists make_lists(Launches& to, const KernelCall& c, size_t ids_at, int E) {
  const Lists lists(c, E);
  const View& ids = c.in[ids_at];
  to.add(Kernel::expert_lists, {E},
         {to.fault(), to.call(), in(c, ids_at), lists.begins, lists.order, int(ids.count()), E, int(ids.shape[1])});
  return lists;
}

// x or dy, w, ids: of the result `columns`, each a sum of K. A pair's row of x is row pair / of_row.
void product(Launches& to, const KernelCall& c, int columns, int K, int of_row, bool transposed) {
  constexpr int kFew = 64, kTile = 64;  // pairs
  const View &w = c.in[1], &ids = c.in[2];
  const int E = int(w.shape[0]), U = int(ids.shape[1]), pairs = int(ids.count()), type = weight_type(w.dtype);
  if (pairs <= kFew)
    return to.add(Kernel::expert_few, {blocks(columns, 8), pairs},
                  {to.fault(), to.call(), in(c, 0), in(c, 1), in(c, 2), out(c, 0), E, U, columns, K, of_row, type,
                   int(transposed)});
  const Lists lists = make_lists(to, c, 2, E);
  const int64_t n = c.out[0].count();  // pairs of no expert give zeros
  to.add(Kernel::fill, {blocks(n, ELEMENTS_OF_A_GROUP)}, {out(c, 0), n, uint32_t(0)});
  to.add(Kernel::expert_product, {blocks(columns, 64), blocks(pairs, kTile) + E},
         {in(c, 0), in(c, 1), lists.begins, lists.order, out(c, 0), E, columns, K, of_row, type, int(transposed)});
}
int of_row(const View& x, const View& ids) { return x.shape[1] == 1 ? int(ids.shape[1]) : 1; }

void expert_linear(Launches& to, const KernelCall& c) noexcept {
  const Shape& w = c.in[1].shape;
  product(to, c, int(w[1]), int(w[2]), of_row(c.in[0], c.in[2]), false);
}
void expert_linear_grad_x(Launches& to, const KernelCall& c) noexcept {
  const Shape& w = c.in[1].shape;
  product(to, c, int(w[2]), int(w[1]), 1, true);
}
// dy, x, ids
void expert_linear_grad_w(Launches& to, const KernelCall& c) noexcept {
  const Shape& dw = c.out[0].shape;
  const int E = int(dw[0]), O = int(dw[1]), I = int(dw[2]);
  const Lists lists = make_lists(to, c, 2, E);
  to.add(Kernel::expert_grad_w, {blocks(I, 64), blocks(O, 64), E},
         {in(c, 0), in(c, 1), lists.begins, lists.order, out(c, 0), O, I, of_row(c.in[1], c.in[2])});
}
bool reads_weight(const KernelQuery& q) noexcept {
  constexpr int64_t kMostPairs = 1 << 24;  // lists are made with sums of f32
  return q.in[0].dtype == DType::f32 && weight_type(q.in[1].dtype) >= 0 && q.in[2].shape.count() < kMostPairs;
}
size_t lists_of_w(const KernelQuery& q) noexcept { return Lists::bytes(q.in[1].shape[0], q.in[2].shape); }
size_t lists_of_dw(const KernelQuery& q) noexcept { return Lists::bytes(q.out[0].shape[0], q.in[2].shape); }

}  // namespace

KernelRecord expert_linear_kernel() {
  return {.op = "expert_linear", .accepts = reads_weight, .workspace = lists_of_w, .code = expert_linear};
}
KernelRecord expert_linear_grad_x_kernel() {
  return {.op = "expert_linear_grad_x", .accepts = reads_weight, .workspace = lists_of_w, .code = expert_linear_grad_x};
}
KernelRecord expert_linear_grad_w_kernel() {
  return {.op = "expert_linear_grad_w", .workspace = lists_of_dw, .code = expert_linear_grad_w};
}

}  // namespace toy::gpu

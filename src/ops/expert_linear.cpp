// A linear map of each row by the experts that it was routed to (Shazeer et al. 2017). Kernels group rows by expert, so
// that each expert's share is a product of matrices; the decomposition computes every expert for every row and picks.
#include "ops/defs.h"

namespace toy {
namespace {

// x [N,S,I] with S = 1 (one row for all of its experts) or U (one for each).
void check_x(const TypeQuery& q, int x, int ids) {
  const int64_t rows = q.in[size_t(x)]->shape[1], used = q.in[size_t(ids)]->shape[1];
  check(rows == 1 || rows == used, "{}: x has S={}, expected 1 or U={}", q.op, rows, used);
}

Cost cost_of(const TensorType& y, int64_t other) { return {.flops = 2.0 * double(y.count()) * double(other)}; }

void vjp(Vjp& c) {
  const Value x = c.in(0), w = c.in(1), ids = c.in(2), dy = c.grad(0);
  if (c.needs(0)) {
    const Value dx = apply(expert_linear_grad_x_def(), {dy, w, ids});
    c.give(0, x.dim(1) == dx.dim(1) ? dx : sum(dx, 1));
  }
  if (!c.needs(1)) return;
  check(w.type().dtype == dy.type().dtype, "expert_linear: the weight '{}' is {}; only {} weights can be trained",
        c.graph().node(w).name, name_of(w.type().dtype), name_of(dy.type().dtype));
  c.give(1, apply(expert_linear_grad_w_def(), {dy, x, ids}, ExpertAttrs{w.dim(0)}));
}

// y_nu = sum_e [ids_nu = e] w_e x_n.
std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) {
  if (is_quantized(in[1].type().dtype)) return {};  // there is nothing simpler
  const Value x = in[0], ids = in[2], w = in[1].type().dtype == x.type().dtype ? in[1] : cast(in[1], x.type().dtype);
  check(x.type().rows == 0, "expert_linear: the decomposition needs a fixed number of rows");
  const int64_t n = x.dim(0), s = x.dim(1), used = ids.dim(1), experts = w.dim(0), outs = w.dim(1);
  const Value all = matmul(reshape(x, {1, n * s, x.dim(2)}), w, {false, true});     // [E,N S,O]
  const Value of_row = permute(reshape(all, {experts, n, s, outs}), {1, 2, 0, 3});  // [N,S,E,O]
  const Value found = reshape(cast(one_hot(ids, experts), x.type().dtype), {n, used, experts, 1});
  return {reshape(sum(of_row * found, 2), {n, used, outs})};
}

}  // namespace

const OpDef& expert_linear_def() {
  static const OpDef def{.signature = "expert_linear(x:[N,S,I], w:weight[E,O,I], ids:i32[N,U]) -> y:[N,U,O]",
                         .infer = [](const TypeQuery& q, std::vector<TensorType>&) { check_x(q, 0, 2); },
                         .vjp = vjp,
                         .cost = [](const CostQuery& q) { return cost_of(q.out[0], q.in[0]->shape[2]); },
                         .decompose = decompose};
  return def;
}

const OpDef& expert_linear_grad_x_def() {
  static const OpDef def{.signature = "expert_linear_grad_x(dy:[N,U,O], w:weight[E,O,I], ids:i32[N,U]) -> dx:[N,U,I]",
                         .cost = [](const CostQuery& q) { return cost_of(q.out[0], q.in[0]->shape[2]); },
                         .decompose = derivative_of<expert_linear_def, expert_linear_grad_x_def>};
  return def;
}

const OpDef& expert_linear_grad_w_def() {
  static const OpDef def{.signature = "expert_linear_grad_w(dy:[N,U,O], x:[N,S,I], ids:i32[N,U]) -> dw:[@experts,O,I]",
                         .infer = [](const TypeQuery& q, std::vector<TensorType>&) { check_x(q, 1, 2); },
                         .cost = [](const CostQuery& q) { return cost_of(*q.in[0], q.in[1]->shape[2]); },
                         .decompose = derivative_of<expert_linear_def, expert_linear_grad_w_def>};
  return def;
}

Value expert_linear(Value x, Value w, Value ids) { return apply(expert_linear_def(), {x, w, ids}); }

}  // namespace toy

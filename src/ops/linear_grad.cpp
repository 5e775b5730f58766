// The two products of linear's gradient, as ops of their own: each can add into what is already there.
#include "ops/defs.h"

namespace toy {
namespace {

Cost cost(const CostQuery& q) { return {.flops = 2.0 * double(q.in[0]->count()) * double(q.in[1]->shape[1])}; }

Value plus(Value acc, Value v) { return acc ? acc + v : v; }

}  // namespace

const OpDef& linear_grad_x_def() {
  static const OpDef def{.signature = "linear_grad_x(dy:[N,O], w:weight[O,I], acc?:[N,I]) -> dx:[N,I]",
                         .cost = cost,
                         .decompose = [](Graph&, std::span<const Value> in, const Attrs&) {
                           if (is_quantized(in[1].type().dtype)) return std::vector<Value>{};
                           return std::vector<Value>{plus(in[2], matmul(in[0], as_type_of(in[0], in[1])))};
                         }};
  return def;
}

const OpDef& linear_grad_w_def() {
  static const OpDef def{.signature = "linear_grad_w(dy:[N,O], x:[N,I], acc?:[O,I]) -> dw:[O,I]",
                         .cost = cost,
                         .decompose = [](Graph&, std::span<const Value> in, const Attrs&) {
                           return std::vector<Value>{plus(in[2], matmul(in[0], in[1], {true, false}))};
                         }};
  return def;
}

Value linear_grad_x(Value dy, Value w, Value acc) { return apply(linear_grad_x_def(), {dy, w, acc}); }
Value linear_grad_w(Value dy, Value x, Value acc) { return apply(linear_grad_w_def(), {dy, x, acc}); }

}  // namespace toy

#include "ops/defs.h"

namespace toy {
namespace {

Value zeros_like(Value v) { return broadcast_to(v.graph->scalar(0, v.type().dtype), v.shape()); }

}  // namespace

std::vector<Value> gradients(Value loss, std::span<const Value> wrt, const std::vector<bool>& again) {
  return backward(loss, wrt, {.add = add, .zeros_like = zeros_like}, {}, again);
}

std::vector<Value> pull_back(Value y, Value dy, std::span<const Value> wrt) { return gradients(sum_all(y * dy), wrt); }

void give_outputs(Vjp& c, const OpDef& grad, std::vector<Value> operands) {
  const int id = c.graph().apply(grad, std::move(operands), c.attrs());
  for (size_t i = 0; i < grad.signature.outputs().size(); ++i) c.give(int(i), Value{&c.graph(), id, int(i)});
}

std::vector<Value> independent(std::span<const Value> values) {
  std::vector<Value> result;
  for (const Value& v : values) {
    Shape order;
    for (int i = 0; i < v.shape().rank(); ++i) order.push_back(i);
    result.push_back(permute(v, order));
  }
  return result;
}

TensorType resolve_shape(std::string_view op, const Shape& wanted, const TensorType& in) {
  TensorType t{in.dtype, wanted, 0};
  if (wanted.rank() > 0 && wanted[0] == -1) {
    check(in.shape.rank() > 0, "{}: shape {}: x is a scalar and has no first dimension to keep", op, wanted.str());
    t.shape[0] = in.shape[0];
    t.rows = in.rows;
  }
  for (const int64_t d : t.shape) check(d >= 0, "{}: shape {} has a negative dimension", op, wanted.str());
  return t;
}

}  // namespace toy

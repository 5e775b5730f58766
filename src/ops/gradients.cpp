#include "ops/defs.h"

namespace toy {
namespace {

Value zeros_like(Value v) { return broadcast_to(v.graph->scalar(0, v.type().dtype), v.shape()); }

}  // namespace

std::vector<Value> gradients(Value loss, std::span<const Value> wrt, const std::vector<bool>& again) {
  return backward(loss, wrt, {.add = add, .zeros_like = zeros_like}, again);
}

std::vector<Value> pull_back(std::span<const Value> of, std::span<const Value> flows, std::span<const Value> wrt) {
  return pull_back(of, flows, wrt, {.add = add, .zeros_like = zeros_like});
}

void give_gradients(Vjp& c, const OpDef& forward, const OpDef& grad) {
  const Signature& s = forward.signature;
  const auto operand = [&](const OperandSpec& spec) {
    if (const int i = s.input_index(spec.name); i >= 0) return c.in(i);
    if (const int o = s.output_index(spec.name); o >= 0) return c.out(o);
    const int o = s.output_index(spec.name.substr(1));
    return c.grad(o) || spec.optional ? c.grad(o) : scale(c.out(o), 0);
  };
  std::vector<Value> operands;
  for (const OperandSpec& spec : grad.signature.inputs()) operands.push_back(operand(spec));
  const int id = c.graph().apply(grad, std::move(operands), c.attrs());
  for (size_t o = 0; o < grad.signature.outputs().size(); ++o)
    c.give(s.input_index(grad.signature.outputs()[o].name.substr(1)), Value{&c.graph(), id, int(o)});
}

std::vector<Value> derivative(const OpDef& forward, const OpDef& grad, Graph& g, std::span<const Value> in,
                              const Attrs& attrs) {
  std::vector<const TensorType*> given;
  for (const Value& v : in) given.push_back(v ? &g.type(v) : nullptr);
  std::vector<TensorType> types = grad.signature.infer(given, attrs);
  if (grad.infer) grad.infer({given, attrs, grad.name()}, types);
  const auto zeros = [&](size_t o) { return cast(fill(g, types[o].shape, 0), types[o].dtype); };

  std::vector<Value> operands, wrt, result(types.size());
  std::vector<size_t> gives;  // the output that is the gradient of each of `wrt`
  for (const OperandSpec& spec : forward.signature.inputs()) {
    const int at = grad.signature.input_index(spec.name), o = grad.signature.output_index("d" + spec.name);
    Value v = at >= 0 ? in[size_t(at)] : Value{};
    if (o >= 0 && at < 0) v = zeros(size_t(o));
    if (o >= 0 && v) {
      wrt.push_back(v = independent(v));
      gives.push_back(size_t(o));
    } else if (o >= 0) {
      result[size_t(o)] = zeros(size_t(o));
    }
    operands.push_back(v);
  }
  const std::vector<Value> y = forward.decompose(g, operands, attrs);
  if (y.empty()) return {};
  std::vector<Value> of, flows;
  for (size_t o = 0; o < y.size(); ++o) {
    const int at = grad.signature.input_index("d" + forward.signature.outputs()[o].name);
    if (at < 0 || !in[size_t(at)]) continue;
    of.push_back(y[o]);
    flows.push_back(in[size_t(at)]);
  }
  const std::vector<Value> found = of.empty() ? std::vector<Value>() : pull_back(of, flows, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) result[gives[i]] = of.empty() ? zeros(gives[i]) : found[i];
  return result;
}

Value independent(Value v) {
  Shape order;
  for (int i = 0; i < v.shape().rank(); ++i) order.push_back(i);
  return permute(v, order);
}

Value log_sum_exp(Value x, int axis) {
  const Value top = stop_gradient(max(x, axis));  // adds nothing to the gradient, nor to the value but for rounding
  return top + log(sum(exp(x - top), axis));
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

// The definitions of the ops: op_list.def names them.
#pragma once

#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy {

#define TOY_OP(name) const OpDef& name##_def();
#include "ops/op_list.def"
#undef TOY_OP

/// The gradients of y with respect to `wrt`, where dy flows into it: d<y, dy> / d(wrt).
std::vector<Value> pull_back(Value y, Value dy, std::span<const Value> wrt);

/// The same values as variables of their own. The operands of a gradient op may depend on each other (dy on x, a tied
/// weight on itself); its decomposition must not differentiate through that.
std::vector<Value> independent(std::span<const Value> values);

/// The shape of an op's attribute resolved against its input: a first dimension of -1 is the input's (with its row
/// count).
TensorType resolve_shape(std::string_view op, const Shape& wanted, const TensorType& in);

/// Output i of the op whose first output this is.
inline Value output(Value first, int i) { return {first.graph, first.node, i}; }

/// A vjp whose gradients are the outputs of one op with the attributes of the node: those of input 0, 1, ...
void give_outputs(Vjp& c, const OpDef& grad, std::vector<Value> operands);

/// What an optimizer takes for its gradient g: multiplied by gscale, if there is one.
inline Value scaled(Value g, Value gscale) { return gscale ? g * gscale : g; }

/// w in the dtype of x.
inline Value as_type_of(Value x, Value w) {
  const DType to = x.type().dtype;
  return w.type().dtype == to ? w : cast(w, to);
}

/// So much for each element of output 0. `tensors` of its size are read and written; 0: each operand once.
template <int flops, int tensors = 0, int transcendentals = 0>
Cost per_element(const CostQuery& q) {
  const double n = double(q.out[0].count());
  return {.flops = flops * n, .bytes = tensors * double(q.out[0].bytes()), .transcendentals = transcendentals * n};
}

/// Is there such a dimension?
void check_axis(std::string_view op, int axis, const TensorType& x);

/// infer of sum and max: the axis is kept with size 1.
void reduce_axis(const TypeQuery& q, std::vector<TensorType>& out);

/// What every norm asks of its eps, and every optimizer with moments of their decay.
void check_eps(std::string_view op, double eps);
void check_betas(std::string_view op, double beta1, double beta2);

/// What every form of attention asks of its attributes, and of the heads of its operands q and k.
void check_attention(std::string_view op, const AttentionAttrs& attrs);
void check_heads(const TypeQuery& q);

}  // namespace toy

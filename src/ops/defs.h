// The definitions of the ops: op_list.def names them.
#pragma once

#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy {

#define TOY_OP(name) const OpDef& name##_def();
#include "ops/op_list.def"
#undef TOY_OP

/// The gradients of values with respect to `wrt`, where flows[i] flows into of[i].
std::vector<Value> pull_back(std::span<const Value> of, std::span<const Value> flows, std::span<const Value> wrt);

/// The same value as a variable of its own. The operands of a gradient op may depend on each other (dy on x, a tied
/// weight on itself); its decomposition must not differentiate through that.
Value independent(Value v);

/// log(sum(exp(x))) along an axis, which stays with size 1.
Value log_sum_exp(Value x, int axis);

/// The shape of an op's attribute resolved against its input: a first dimension of -1 is the input's (with its row
/// count).
TensorType resolve_shape(std::string_view op, const Shape& wanted, const TensorType& in);

/// Output i of the op whose first output this is.
inline Value output(Value first, int i) { return {first.graph, first.node, i}; }

/// The gradient of an op as an op of its own, `grad`, with the same attributes. Names connect the two: an input of
/// `grad` is what the forward op calls so, an input or an output of it, or `d` with the name of an output: what flows
/// into that. An output `dx` is the gradient of the input x.
void give_gradients(Vjp& c, const OpDef& forward, const OpDef& grad);
/// And what such an op means: the derivative of the forward op's decomposition. Inputs that `grad` does not take are
/// zeros (its result does not depend on their values); those that are absent have gradients of zeros.
std::vector<Value> derivative(const OpDef& forward, const OpDef& grad, Graph& g, std::span<const Value> in,
                              const Attrs& attrs);

/// Both as functions of an OpDef: `.vjp` of the forward op, `.decompose` of its gradient.
using OpDefOf = const OpDef& (*)();
template <OpDefOf forward, OpDefOf grad>
void vjp_by(Vjp& c) {
  give_gradients(c, forward(), grad());
}
template <OpDefOf forward, OpDefOf grad>
std::vector<Value> derivative_of(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  return derivative(forward(), grad(), g, in, attrs);
}

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

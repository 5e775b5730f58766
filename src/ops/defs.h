// The definitions of the ops: op_list.def names them.
#pragma once

#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy {

#define TOY_OP(name) const OpDef& name##_def();
#include "ops/op_list.def"
#undef TOY_OP

/// gradients() with a gradient that flows into several values: d(sum_i <values_i, seeds_i>) / d(wrt).
std::vector<Value> pull_back(std::span<const Value> values, std::span<const Value> seeds, std::span<const Value> wrt);

/// The same values as variables of their own. The operands of a gradient op may depend on each other (dy on x, a tied
/// weight on itself); its decomposition must not differentiate through that.
std::vector<Value> independent(std::span<const Value> values);

/// The shape of an op's attribute resolved against its input: a first dimension of -1 is the input's (with its row
/// count).
TensorType resolve_shape(std::string_view op, const Shape& wanted, const TensorType& in);

/// Output i of the op whose first output this is.
inline Value output(Value first, int i) { return {first.graph, first.node, i}; }

/// What every norm asks of its eps, and every optimizer with moments of their decay.
void check_eps(std::string_view op, double eps);
void check_betas(std::string_view op, double beta1, double beta2);

/// What every form of attention asks of its attributes.
void check_attention(std::string_view op, const AttentionAttrs& attrs);

}  // namespace toy

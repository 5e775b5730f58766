// The definitions of the ops, one function a file; op_list.cpp lists them.
#pragma once

#include "toy/graph/op_def.h"
#include "toy/ops/ops.h"

namespace toy {

const OpDef& add_def();
const OpDef& sub_def();
const OpDef& mul_def();
const OpDef& div_def();
const OpDef& neg_def();
const OpDef& exp_def();
const OpDef& log_def();
const OpDef& sqrt_def();
const OpDef& rsqrt_def();
const OpDef& sigmoid_def();
const OpDef& silu_def();
const OpDef& scale_def();
const OpDef& reshape_def();
const OpDef& permute_def();
const OpDef& slice_def();
const OpDef& concat_def();
const OpDef& broadcast_to_def();
const OpDef& cast_def();
const OpDef& fill_def();
const OpDef& sum_def();
const OpDef& softmax_def();
const OpDef& matmul_def();
const OpDef& linear_def();
const OpDef& linear_grad_x_def();
const OpDef& linear_grad_w_def();
const OpDef& embedding_def();
const OpDef& embedding_grad_def();
const OpDef& one_hot_def();
const OpDef& rms_norm_def();
const OpDef& rms_norm_grad_def();
const OpDef& rope_def();
const OpDef& swiglu_def();
const OpDef& swiglu_grad_def();
const OpDef& attention_def();
const OpDef& attention_grad_def();
const OpDef& attention_mask_def();
const OpDef& attention_paged_def();
const OpDef& kv_append_def();
const OpDef& linear_xent_def();
const OpDef& adamw_def();
const OpDef& global_norm_def();
const OpDef& clip_scale_def();

/// gradients() with a gradient that flows into several values: d(sum_i <values_i, seeds_i>) / d(wrt).
std::vector<Value> pull_back(std::span<const Value> values, std::span<const Value> seeds, std::span<const Value> wrt);

/// The same values as variables of their own. The operands of a gradient op may depend on each other (dy on x, a tied
/// weight on itself); its decomposition must not differentiate through that.
std::vector<Value> independent(std::span<const Value> values);

/// The shape of an op's attribute resolved against its input: a first dimension of -1 is the input's (with its row
/// count).
TensorType resolve_shape(const Shape& wanted, const TensorType& in);

}  // namespace toy

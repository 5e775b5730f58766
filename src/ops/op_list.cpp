#include <algorithm>
#include <array>

#include "ops/defs.h"

namespace toy {

std::span<const OpDef* const> all_ops() {
  static const std::array ops{
      &add_def(),
      &sub_def(),
      &mul_def(),
      &div_def(),
      &neg_def(),
      &exp_def(),
      &log_def(),
      &sqrt_def(),
      &rsqrt_def(),
      &sigmoid_def(),
      &silu_def(),
      &scale_def(),
      &reshape_def(),
      &permute_def(),
      &slice_def(),
      &concat_def(),
      &broadcast_to_def(),
      &cast_def(),
      &fill_def(),
      &sum_def(),
      &softmax_def(),
      &matmul_def(),
      &linear_def(),
      &linear_grad_x_def(),
      &linear_grad_w_def(),
      &embedding_def(),
      &embedding_grad_def(),
      &one_hot_def(),
      &rms_norm_def(),
      &rms_norm_grad_def(),
      &rope_def(),
      &swiglu_def(),
      &swiglu_grad_def(),
      &attention_def(),
      &attention_grad_def(),
      &attention_mask_def(),
      &attention_paged_def(),
      &kv_append_def(),
      &linear_xent_def(),
      &adamw_def(),
      &global_norm_def(),
      &clip_scale_def(),
  };
  return ops;
}

const OpDef* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it = std::find_if(ops.begin(), ops.end(), [&](const OpDef* d) { return d->name() == name; });
  return it == ops.end() ? nullptr : *it;
}

}  // namespace toy

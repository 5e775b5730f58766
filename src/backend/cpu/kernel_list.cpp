#include "backend/cpu/kernel_list.h"

#include <vector>

#include "backend/cpu/kernels.h"

namespace toy::cpu {

std::span<const KernelRecord> kernel_list() {
  static const std::vector<KernelRecord> list = {
      linear_kernel(),
      linear_grad_x_kernel(),
      linear_grad_w_kernel(),
      linear_xent_kernel(),
      matmul_kernel(),

      attention_kernel(),
      attention_grad_kernel(),
      attention_paged_kernel(),
      kv_append_kernel(),

      rms_norm_kernel(),
      rms_norm_grad_kernel(),
      rope_kernel(),
      swiglu_kernel(),
      swiglu_grad_kernel(),
      softmax_kernel(),

      embedding_kernel(),
      embedding_grad_kernel(),
      one_hot_kernel(),
      attention_mask_kernel(),

      adamw_kernel(),
      global_norm_kernel(),
      clip_scale_kernel(),

      add_kernel(),
      sub_kernel(),
      mul_kernel(),
      div_kernel(),
      neg_kernel(),
      exp_kernel(),
      log_kernel(),
      sqrt_kernel(),
      rsqrt_kernel(),
      sigmoid_kernel(),
      silu_kernel(),
      scale_kernel(),

      copy_kernel(),
      concat_kernel(),
      cast_kernel(),
      fill_kernel(),
      sum_kernel(),
  };
  return list;
}

}  // namespace toy::cpu

// The reference device: f64 plain loops on one thread.
#include "backend/reference/kernels.h"
#include "toy/backend/devices.h"

namespace toy {
namespace {

std::vector<KernelRecord> reference_kernels() {
  using namespace reference;
  return {
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
}

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  DType storage(DType logical) const override { return is_float(logical) ? DType::f64 : logical; }
  DType compute() const override { return DType::f64; }
  std::span<const KernelRecord> kernels() const override { return kernels_; }
  ThreadPool& pool() override { return pool_; }

 private:
  std::vector<KernelRecord> kernels_ = reference_kernels();
  ThreadPool pool_{1};
};

}  // namespace

std::unique_ptr<Device> make_reference_device() { return std::make_unique<ReferenceDevice>(); }

}  // namespace toy

#include "backend/cpu/kernel_list.h"

#include <vector>

#include "backend/cpu/elementwise/fused.h"
#include "backend/cpu/kernels.h"

namespace toy::cpu {
namespace {

std::vector<KernelRecord> all_kernels() {
  std::vector<KernelRecord> list = {
      // The first record that accepts a node runs it.
      linear_bf16_kernel(),
      linear_grad_x_bf16_kernel(),
      linear_grad_w_bf16_kernel(),
      linear_xent_bf16_kernel(),
      matmul_bf16_kernel(),
      linear_quantized_kernel(),
      linear_exact_kernel(),
      expert_linear_quantized_kernel(),
      expert_linear_exact_kernel(),
      linear_grad_x_exact_kernel(),
      expert_linear_grad_x_exact_kernel(),
#define TOY_KERNEL(name) name##_kernel(),
#include "backend/cpu/kernels.def"
#include "toy/backend/kernels.def"
#undef TOY_KERNEL
  };
  for (KernelRecord& k : list) k.elementwise = fused_function(k.op);
  list.push_back(fused_elementwise_kernel());
  list.push_back(linear_grad_w_adamw_kernel());
  return list;
}

}  // namespace

std::span<const KernelRecord> kernel_list() {
  static const std::vector<KernelRecord> list = all_kernels();
  return list;
}

}  // namespace toy::cpu

// The kernel records of the cpu device. A new kernel is one file and one line: in toy/backend/kernels.def, or in
// backend/cpu/kernels.def if its op has a decomposition.
#pragma once

#include "toy/backend/host_kernel.h"

namespace toy::cpu {

#define TOY_KERNEL(name) KernelRecord name##_kernel();
#include "backend/cpu/kernels.def"
#include "toy/backend/kernels.def"
#undef TOY_KERNEL

// Dense products on operands rounded to bf16, where the plan allows it and the machine is fast at it (gemm.h).
KernelRecord linear_bf16_kernel();
KernelRecord linear_grad_x_bf16_kernel();
KernelRecord linear_grad_w_bf16_kernel();
KernelRecord linear_xent_bf16_kernel();
KernelRecord matmul_bf16_kernel();
// Weights in blocks: with rows rounded to 8 bits where the plan allows it (quant.h), or exactly.
KernelRecord linear_quantized_kernel();
KernelRecord linear_exact_kernel();
KernelRecord linear_grad_x_exact_kernel();
KernelRecord expert_linear_quantized_kernel();
KernelRecord expert_linear_exact_kernel();
KernelRecord expert_linear_grad_x_exact_kernel();

}  // namespace toy::cpu

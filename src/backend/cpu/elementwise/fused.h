// The kernels of nodes that the planner makes of several ops.
#pragma once

#include <string_view>

#include "toy/backend/kernel.h"

namespace toy::cpu {

/// Chains of elementwise ops.
KernelRecord fused_elementwise_kernel();
/// linear_grad_w and the adamw that uses it.
KernelRecord linear_grad_w_adamw_kernel();
/// KernelRecord::elementwise of an op's kernel: its number among the lines of elementwise.def, or -1.
int fused_function(std::string_view op);

}  // namespace toy::cpu

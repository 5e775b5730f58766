// The kernel for chains of elementwise ops, which the planner makes of single ones.
#pragma once

#include <string_view>

#include "toy/backend/kernel.h"

namespace toy::cpu {

KernelRecord fused_elementwise_kernel();
/// KernelRecord::elementwise of an op's kernel: its number among the lines of elementwise.def, or -1.
int fused_function(std::string_view op);

}  // namespace toy::cpu

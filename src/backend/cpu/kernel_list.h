// Every kernel of the cpu device.
#pragma once

#include <span>

#include "toy/backend/kernel.h"

namespace toy::cpu {

/// One record for each line of kernels.h. They live as long as the program.
std::span<const KernelRecord> kernel_list();

}  // namespace toy::cpu

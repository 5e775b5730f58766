// What an optimizer multiplies gradients by: an optional operand of its ops, made by clipping.
#pragma once

#include "toy/backend/kernel.h"

namespace toy::cpu {

/// 1 without the operand. Not finite: a gradient was not, and the step is skipped.
inline float scale_of_gradients(const KernelArgs& args, size_t operand) {
  return args.in.size() > operand && args.in[operand].data ? *args.in[operand].as<const float>() : 1.0f;
}

}  // namespace toy::cpu

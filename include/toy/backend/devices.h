// The devices this build has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "toy/backend/device.h"

namespace toy {

/// f64 plain loops on one thread: the executable specification.
std::unique_ptr<Device> make_reference_device();
/// f32 with SIMD. threads 0: every core. Throws Error{bad_input} where the processor lacks the baseline (SSSE3, NEON).
std::unique_ptr<Device> make_cpu_device(int threads = 0);

/// How many times faster the device's dense products are with bf16 operands than with f32, measured on products of a
/// training step for some milliseconds. 0: it has none.
double bf16_speedup(Device& device);

}  // namespace toy

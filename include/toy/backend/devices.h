// The devices this build has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "toy/backend/kernel.h"

namespace toy {

/// f64 plain loops on one thread: the executable specification.
std::unique_ptr<Device> make_reference_device();
/// f32 with SIMD. threads 0: every core.
std::unique_ptr<Device> make_cpu_device(int threads = 0);

}  // namespace toy

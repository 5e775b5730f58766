// Your own kernels: a device with all kernels of another, and more.
#pragma once

#include <memory>
#include <vector>

#include "toy/backend/device.h"

namespace toy {

/// The device `base` with the kernels `more` in front of its own: they are asked first, so a kernel may also
/// replace a built-in one. `base` must have memory and dtypes for them: f64 on the reference, f32 on the cpu.
/// Throws Error{bad_input} for a kernel without a name or a function.
std::unique_ptr<Device> extend_device(std::unique_ptr<Device> base, std::vector<KernelRecord> more);

}  // namespace toy

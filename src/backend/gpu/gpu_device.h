// The device of a driver: all GPUs have these kernels, these records and this way to run a program.
#pragma once

#include <memory>

#include "backend/gpu/driver.h"

namespace toy::gpu {

std::unique_ptr<Device> make_gpu_device(std::unique_ptr<Driver> driver);

/// The records of all GPUs (records.cpp).
std::span<const KernelRecord> records();

}  // namespace toy::gpu

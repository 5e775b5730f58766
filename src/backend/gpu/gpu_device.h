// The device of a driver: all GPUs have these kernels, these records and this way to run a program.
#pragma once

#include <memory>
#include <string>

#include "backend/gpu/driver.h"

namespace toy::gpu {

std::unique_ptr<Device> make_gpu_device(std::unique_ptr<Driver> driver);

/// The hardware and its driver, as their makers name them; "" for other devices, and where there is no more to say.
std::string title_of(const Device& device);

/// What a GPU is driven by; nullptr for other devices.
Driver* driver_of(Device& device);

/// The records of all GPUs (records.cpp). `library`: with those for Driver::takes_library().
std::span<const KernelRecord> records(bool library = false);

}  // namespace toy::gpu

// NVIDIA's GPUs through CUDA's driver.
#pragma once

#include <memory>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// The first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses). Throws Error{bad_input} naming what is missing
/// and how to get it: kernels in this build, the driver's library, a driver that is new enough, a GPU of sm_80 or
/// newer.
std::unique_ptr<Driver> make_cuda_driver();

}  // namespace toy::gpu

// What a GPU can do at most, measured: the ceilings of `toy bench`.
#pragma once

#include "toy/backend/device.h"

namespace toy::gpu {

/// GFLOP/s of f32 multiply-adds, 1e9 exponentials a second, and GB/s of a copy in its memory, bytes read and written
/// both counted. The best of some runs; 0 for devices that are no GPU.
double fma_gflops(Device& device);
double exp_gops(Device& device);
double copy_gbs(Device& device);

}  // namespace toy::gpu

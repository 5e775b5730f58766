// Any device that has an OpenCL 1.2 driver: GPUs of AMD, Intel, Apple and phones, and CPUs (PoCL).
#pragma once

#include <memory>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// The first GPU of any platform, else the first device; or the first one whose platform or name has the text of the
/// environment variable TOY_OPENCL_DEVICE in it. Throws Error{bad_input} naming what is missing and how to get it.
/// Compiled programs are kept on disk; PoCL's only where `always_keep`, as it keeps them itself and would compile a
/// file's kernels twice.
std::unique_ptr<Driver> make_opencl_driver(bool always_keep = false);

}  // namespace toy::gpu

// The kernel records of GPUs. A new one is a line here, a function in the file of its family, and a kernel
// (kernels/kernels.def).
#pragma once

#include "backend/gpu/launches.h"

namespace toy::gpu {

#define TOY_KERNEL(name) KernelRecord name##_kernel();
#include "backend/gpu/records.def"
#undef TOY_KERNEL
/// Those of products in bf16 that a library computes (products.cpp); they come before the others.
std::vector<KernelRecord> library_records();

}  // namespace toy::gpu

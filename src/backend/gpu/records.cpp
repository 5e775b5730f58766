#include "backend/gpu/records.h"

#include "backend/gpu/gpu_device.h"

namespace toy::gpu {

std::span<const KernelRecord> records() {
  static const std::vector<KernelRecord> list = {
#define TOY_KERNEL(name) name##_kernel(),
#include "backend/gpu/records.def"
#undef TOY_KERNEL
  };
  return list;
}

}  // namespace toy::gpu

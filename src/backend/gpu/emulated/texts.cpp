#include "backend/gpu/emulated/texts.h"

#include <span>

#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/gated_delta.h"
#include "backend/gpu/kernels/pairs.h"
#include "backend/gpu/kernels/store.h"
#include "backend/gpu/kernels/tensors.h"
#include "backend/gpu/kernels/weights.h"
#include "toy/backend/kernel_fault.h"

// For each file of kernels/: its local memory in a section `toy_local_FILE`, whose ends the linker names, and its text
// in a namespace `FILE_text`. The build writes the list.
#include "gpu_texts.inc"

namespace toy::gpu {

static_assert(FAULT_SEQUENCE == int(KernelFault::sequence) && FAULT_POSITION == int(KernelFault::position) &&
              FAULT_PAGE == int(KernelFault::page) && FAULT_ID == int(KernelFault::id) &&
              FAULT_TARGET == int(KernelFault::target) && FAULT_EXPERT == int(KernelFault::expert) &&
              FAULT_GAP == int(KernelFault::gap) && FAULT_NOT_FINITE == int(KernelFault::not_finite));

std::span<const Text> texts() {
  static const Text list[] = {
#define TOY_GPU_KERNEL(file, name, items) \
  text_of<file##_text::name>(#name, items, __start_toy_local_##file, __stop_toy_local_##file),
#include "backend/gpu/kernels/kernels.def"
#undef TOY_GPU_KERNEL
  };
  return list;
}

}  // namespace toy::gpu

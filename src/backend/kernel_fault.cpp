#include "toy/backend/kernel_fault.h"

namespace toy {
namespace {

// With the index and the value that the kernel gave.
const char* text_of(KernelFault fault) {
  switch (fault) {
    case KernelFault::none:
      break;
    case KernelFault::sequence:
      return "{}: row {} has sequence {}";
    case KernelFault::position:
      return "{}: row {} has position {}";
    case KernelFault::page:
      return "{}: row {} has page {}";
    case KernelFault::id:
      return "{}: row {} has id {}";
    case KernelFault::target:
      return "{}: row {} has target {}";
    case KernelFault::expert:
      return "{}: row {} has expert {}";
    case KernelFault::gap:
      return "{}: row {} resumes sequence {} after a gap; give the rows of a sequence together";
    case KernelFault::not_finite:
      return "{}: a gradient is not finite, and part of the weights has been updated with it";
  }
  return "{}: no fault";
}

}  // namespace

KernelFailure::KernelFailure(KernelFault fault, std::string_view op, int64_t index, int64_t value)
    : Error(fault == KernelFault::not_finite ? ErrorCode::failure : ErrorCode::bad_input,
            fmt::format(fmt::runtime(text_of(fault)), op, index, value)),
      fault_(fault) {}

}  // namespace toy

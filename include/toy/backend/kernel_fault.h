// What a kernel can find wrong in its data. Kernels do not throw: they report a code and two numbers, which any device
// can hand to the host, and the device throws when the host next waits for it.
#pragma once

#include <cstdint>
#include <string_view>

#include "toy/base/error.h"

namespace toy {

/// The code of a fault.
enum class KernelFault : int32_t {
  none,
  sequence,  ///< a row of a sequence that there is not
  position,
  page,
  id,
  target,
  expert,
  gap,         ///< a row resumes a sequence after rows of another one
  not_finite,  ///< a gradient, where the update cannot be undone
};

/// What a kernel found in its data.
class KernelFailure : public Error {
 public:
  /// In the kernel of `op`, at `index`.
  KernelFailure(KernelFault fault, std::string_view op, int64_t index, int64_t value);
  KernelFault fault() const { return fault_; }

 private:
  KernelFault fault_;
};

}  // namespace toy

// The tables of tensors that launches go over, in the device's memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// Completes launches of many tensors. A kernel gets the address of its table, how many tensors that has, and the
/// operands of the first one, from which the table counts (TensorPlace in kernels/arguments.h).
class Tables {
 public:
  /// Writes the tables of all these launches to new memory, and their last arguments. The driver must outlive this,
  /// and this the runs of the launches. Throws Error{failure} where there is no memory.
  Tables(Driver& driver, std::span<std::vector<Launch>* const> lists);

 private:
  struct Release {
    Driver* driver;
    void operator()(void* memory) const noexcept { driver->release(memory); }
  };
  std::unique_ptr<void, Release> memory_;
};

}  // namespace toy::gpu

// A GPU without a GPU: kernels run on one thread of the CPU, and mistakes in them are found (words.h).
#pragma once

#include <memory>

#include "backend/gpu/driver.h"
#include "backend/gpu/emulated/items.h"

namespace toy::gpu {

/// `memory`: bytes that it has; 0: as many as the machine.
std::unique_ptr<Driver> make_emulated_driver(ItemOrder order = ItemOrder::ascending, size_t memory = 0);

}  // namespace toy::gpu

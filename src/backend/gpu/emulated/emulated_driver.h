// A GPU without a GPU: kernels run on one thread of the CPU, and mistakes in them are found (words.h).
#pragma once

#include <memory>

#include "backend/gpu/driver.h"
#include "backend/gpu/emulated/items.h"

namespace toy::gpu {

std::unique_ptr<Driver> make_emulated_driver(ItemOrder order = ItemOrder::ascending);

}  // namespace toy::gpu

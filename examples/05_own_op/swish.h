// An op that toy does not have: swish with a slope of its own for each column (Ramachandran et al. 2017).
#pragma once

#include <memory>

#include "toy/backend/device.h"
#include "toy/graph/op_def.h"

namespace own {

/// y = x sigmoid(beta x). x:[*,D] beta:[D] -> [*,D].
toy::Value swish(toy::Value x, toy::Value beta);

/// A device with kernels for swish beside its own. A device without them runs the op's decomposition.
std::unique_ptr<toy::Device> with_swish(std::unique_ptr<toy::Device> device);

}  // namespace own

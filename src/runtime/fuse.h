// Fusion: chains of elementwise ops become one node that runs them block by block.
#pragma once

#include "runtime/lower.h"

namespace toy {

/// Replaces elementwise ops by `fused_elementwise` nodes where the device has a kernel for them. Ops join when all but
/// the last are used by the others alone and every result has one shape; the bits stay the same, because the functions
/// are the ops' own.
Lowered fuse(Lowered lowered, const Device& device, const PlanOptions& options);

/// The op's name, for fused nodes "fused(mul, add, sigmoid)".
std::string step_name(const Node& node);

}  // namespace toy

// Fusion: several ops become one node, where the device has a kernel for it. The bits stay the same.
#pragma once

#include "runtime/lower.h"

namespace toy {

/// Replaces elementwise ops by `fused_elementwise` nodes where the device has a kernel for them. Ops join when all but
/// the last are used by the others alone and every result has one shape; the bits stay the same, because the functions
/// are the ops' own.
Lowered fuse(Lowered lowered, const Device& device, const PlanOptions& options);

/// Replaces an adamw and the linear_grad_w that makes its gradient, and nothing else's, by one linear_grad_w_adamw.
Lowered fuse_updates(Lowered lowered, const Device& device, const PlanOptions& options);

/// The op's name, for fused nodes "fused(mul, add, sigmoid)".
std::string step_name(const Node& node);

}  // namespace toy

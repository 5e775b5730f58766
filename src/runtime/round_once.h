// What dense products round their operands to becomes a value of its own.
#pragma once

#include "runtime/lower.h"

namespace toy {

/// With products in bf16: puts a `cast` to bf16 in front of the linear maps whose operands the device takes in bf16,
/// one for all of them that read a value. So each is rounded once, and what nothing else reads is kept in two bytes.
/// A kernel whose result only they read writes bf16 itself, if its record says so (KernelRecord::rounds). The bits are
/// those of rounding inside the products.
///
/// One copy serves forward and backward, but where the value itself is kept until then anyway: there a second copy is
/// made in backward instead of keeping the first. That of a parameter is kept, which rounds it once a step, unless
/// PlanOptions::round_again.
Lowered round_once(Lowered lowered, const Device& device, const PlanOptions& options);

}  // namespace toy

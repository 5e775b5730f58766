// Fewer launches that do the same: what a GPU waits for when it decodes a small model, or updates many tensors.
#pragma once

#include <span>
#include <vector>

#include "backend/gpu/driver.h"

namespace toy::gpu {

/// The launches of a program, those of call i up to ends[i], with some in one, which gives the same bits:
///   products of few rows with the same operand, such as queries, keys and values, or gate and up;
///   a sum and the RMSNorm of it;
///   the same step of an optimizer for many tensors, where the driver's kernels reach them all.
/// A launch moves only past calls that touch nothing of what it reads or writes.
std::vector<Launch> fused(const Driver& driver, std::span<const KernelCall> calls, std::span<const Launch> launches,
                          std::span<const size_t> ends);

}  // namespace toy::gpu

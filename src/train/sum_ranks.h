// Sums over ranks whose bits do not depend on the number of ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/base/communicator.h"
#include "toy/base/threads.h"
#include "toy/tensor/buffer.h"
#include "toy/tensor/dtype.h"

namespace toy {

/// Can so many ranks share a step of so many shards? Each has a subtree of SumTree, or one rank has all of it.
bool can_share(int64_t shards, int64_t ranks);
/// "1, 2 or 4": the numbers of ranks that can.
std::string sharing_ranks(int64_t shards);

constexpr size_t kSumBucket = size_t(25) << 20;  ///< bytes on their way at once

/// How sum_ranks() cuts values of `size` bytes each: `most` of them are on their way at once, of which a rank adds up
/// to `largest`.
struct SumCut {
  size_t most, largest;
  SumCut(int ranks, size_t size, size_t values);
  /// Of so many that are on their way: where each rank's part begins, and where the last one ends, in bytes.
  std::vector<size_t> bounds(size_t count) const;

 private:
  size_t ranks_, size_;
};

/// Memory of sum_ranks(), at most about kSumBucket each, for the next call.
struct SumBuffers {
  Buffer packed, received;
};

/// Each rank's values become the sum over all ranks, which are added as a SumTree of their number: every rank adds a
/// part of the values, and sends its sums to the others. `values`: f32 or f64, as many on every rank. `in_bf16`: they
/// are numbers of bf16, and so is every sum, rounded; half the bytes go around.
void sum_ranks(Communicator& ranks, ThreadPool& pool, SumBuffers& buffers, DType type, std::span<std::byte> values,
               bool in_bf16 = false);
/// Bytes of SumBuffers, or of a device that adds, for `values` on each rank.
size_t sum_buffer_bytes(int ranks, DType type, size_t values, bool in_bf16);
/// Allocates them.
void reserve_sums(SumBuffers& buffers, int ranks, DType type, size_t values, bool in_bf16);
/// Rounds each value, f32 or f64, to the nearest number of bf16.
void round_to_bf16(ThreadPool& pool, DType type, std::span<std::byte> values);

}  // namespace toy

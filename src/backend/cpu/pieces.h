// Consecutive work items in pieces that the threads of a team claim.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "toy/base/threads.h"

namespace toy::cpu {

/// The pieces of [0, n) that one thread gets. A piece is a 2T-th of what is left, T being the number of threads, and at
/// least `least` items (guided self-scheduling: Polychronopoulos and Kuck 1987): long at first, so that memory is read
/// in long runs, short at last, so that no thread waits long for another. A barrier is between this and another use of
/// ThreadPool::claim().
class Pieces {
 public:
  Pieces(int64_t n, int64_t least, const TeamMember& team) : left_{0, n}, least_(least), team_(team) {}

  /// The next one; empty at the end.
  Range next() {
    if (!team_.pool) return std::exchange(left_, {});
    Range piece;
    for (const int64_t mine = team_.pool->claim(); passed_ <= mine; ++passed_) {
      const int64_t size = std::max(least_, left_.size() / (2 * team_.threads));
      piece = {left_.begin, std::min(left_.begin + size, left_.end)};
      left_.begin = piece.end;
    }
    return piece;
  }

 private:
  Range left_;
  int64_t least_, passed_ = 0;
  const TeamMember team_;
};

}  // namespace toy::cpu

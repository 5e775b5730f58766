// Orders without tables.
#pragma once

#include "toy/base/philox.h"

namespace toy {

/// A keyed permutation of [0, n): a Feistel network on the next even number of bits, walked along its cycle until it
/// lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, method 2). At most 4 n values
/// lie outside n's, so a walk has fewer than 4 steps on average, and no table is needed however long the text is.
inline uint64_t permute(uint64_t index, uint64_t n, uint64_t key, uint64_t stream) {
  constexpr uint64_t kRounds = 6;
  int half = 1;
  while ((uint64_t(1) << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = philox4x32(key, right << 8 | round, stream)[0];
      const uint64_t next = (left ^ mixed) & mask;
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= n);
  return index;
}

}  // namespace toy

#include "data/permute.h"

namespace toy {

uint64_t permute(uint64_t index, uint64_t n, uint64_t key, uint64_t stream) {
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

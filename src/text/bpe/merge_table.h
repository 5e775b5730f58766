// The merges of byte-level BPE.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace toy {

/// From a pair of symbols to the symbol that they become. A hash table of its own, because encoding is little else than
/// looking up pairs.
class MergeTable {
 public:
  struct Entry {
    int32_t left = -1, right = 0, rank = 0, merged = 0;  // left -1: free
  };
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(2 * merges + 1)) {}

  /// The first merge of a pair counts. At most as many as the constructor was told of.
  void add(const Entry& entry) {
    Entry& slot = slots_[place(entry.left, entry.right)];
    if (slot.left < 0) slot = entry;
  }
  /// An entry with left -1 if there is none.
  const Entry& find(int32_t left, int32_t right) const { return slots_[place(left, right)]; }

 private:
  size_t place(int32_t left, int32_t right) const {
    const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    uint64_t hash = key * 0x9E3779B97F4A7C15;
    hash = (hash ^ hash >> 32) * 0xBF58476D1CE4E5B9;
    for (size_t at = size_t(hash >> 32);; ++at) {
      const Entry& slot = slots_[at &= slots_.size() - 1];
      if (slot.left < 0 || (slot.left == left && slot.right == right)) return at;
    }
  }
  std::vector<Entry> slots_;
};

}  // namespace toy

// Packing of blocks with lifetimes into one arena.
#pragma once

#include <cstddef>
#include <vector>

namespace toy {

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

struct Block {
  size_t bytes = 0;
  int first = 0, last = 0;  ///< steps during which it must keep its content, inclusive
  size_t offset = 0;        ///< result
};

/// Gives every block an offset (multiples of `align`) such that blocks alive at the same step do not overlap. Largest
/// first, each at the lowest free offset. Returns the arena's size.
size_t pack_blocks(std::vector<Block>& blocks, size_t align = 64);

}  // namespace toy

// Packing of blocks with lifetimes into one arena.
#pragma once

#include <cstddef>
#include <vector>

namespace toy {

struct Block {
  size_t bytes = 0;
  int first = 0, last = 0;  ///< steps during which it must keep its content, inclusive
  size_t offset = 0;        ///< result
};

/// Gives every block an offset (multiples of 64) such that blocks alive at the same step do not overlap. Largest first,
/// each at the lowest free offset. Returns the arena's size.
size_t pack_blocks(std::vector<Block>& blocks);

}  // namespace toy

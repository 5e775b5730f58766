#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

namespace toy {

size_t pack_blocks(std::vector<Block>& blocks) {
  constexpr size_t kAlign = 64;
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<size_t> placed;  // sorted by offset
  size_t total = 0;
  for (const size_t i : order) {
    Block& b = blocks[i];
    size_t at = 0;
    for (const size_t j : placed) {
      const Block& p = blocks[j];
      if (p.last < b.first || b.last < p.first) continue;
      if (at + b.bytes <= p.offset) break;
      at = std::max(at, (p.offset + p.bytes + kAlign - 1) / kAlign * kAlign);
    }
    b.offset = at;
    total = std::max(total, at + b.bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t x, size_t y) { return blocks[x].offset < blocks[y].offset; }),
                  i);
  }
  return (total + kAlign - 1) / kAlign * kAlign;
}

}  // namespace toy

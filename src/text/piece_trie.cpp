#include "text/piece_trie.h"

#include <cstddef>

namespace toy {

// Breadth first, so that the children of a node come one after another: each node stands for a range of the
// sorted entries, which begin with the same `depth` bytes.
PieceTrie::PieceTrie(const std::vector<Entry>& entries) : nodes_(1) {
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    if (begin < end && entries[begin].text.size() == depth) nodes_[node].id = entries[begin++].id;
    nodes_[node].first_child = int32_t(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].text[depth];
      size_t next = begin + 1;
      while (next < end && entries[next].text[depth] == byte) ++next;
      ++nodes_[node].children;
      nodes_.push_back({0, kNone, 0, uint8_t(byte)});
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
}

int32_t PieceTrie::child(int32_t node, char byte) const {
  const uint8_t wanted = uint8_t(byte);
  int32_t low = nodes_[size_t(node)].first_child;
  int32_t high = low + nodes_[size_t(node)].children;
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    const uint8_t found = nodes_[size_t(middle)].byte;
    if (found == wanted) return middle;
    if (found < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return kNone;
}

}  // namespace toy

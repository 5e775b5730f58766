#include "text/spm/piece_trie.h"

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
      nodes_.push_back({.byte = uint8_t(byte)});
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    const Node& n = nodes_[node];
    if (n.children <= kMostListed) continue;
    std::array<int32_t, 256>& table = tables_.emplace_back();
    table.fill(kNone);
    for (int32_t i = n.first_child; i < n.first_child + n.children; ++i) table[nodes_[size_t(i)].byte] = i;
    nodes_[node].table = int32_t(tables_.size()) - 1;
  }
}

}  // namespace toy

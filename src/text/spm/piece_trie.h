// All pieces that begin at a place of a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace toy {

/// A trie of byte strings. Nodes are numbers, 0 is the root; the children of a node lie side by side, sorted by
/// byte.
class PieceTrie {
 public:
  struct Entry {
    std::string_view text;
    int32_t id;
  };
  static constexpr int32_t kNone = -1;

  /// `entries`: sorted by text, none empty or twice; together below 2^31 bytes. Copies what it needs.
  explicit PieceTrie(const std::vector<Entry>& entries);

  /// The node after one byte more, or kNone.
  int32_t child(int32_t node, char byte) const {
    const Node& n = nodes_[size_t(node)];
    if (n.children > kMostListed) return tables_[size_t(n.table)][uint8_t(byte)];
    for (int32_t i = n.first_child; i < n.first_child + n.children; ++i)
      if (nodes_[size_t(i)].byte == uint8_t(byte)) return i;
    return kNone;
  }
  /// The entry that ends in a node, or kNone.
  int32_t id(int32_t node) const { return nodes_[size_t(node)].id; }

 private:
  static constexpr int32_t kMostListed = 6;  ///< a node with more children has a table of them
  struct Node {
    int32_t first_child = 0, id = kNone, table = 0;
    uint16_t children = 0;
    uint8_t byte = 0;
  };
  std::vector<Node> nodes_;
  std::vector<std::array<int32_t, 256>> tables_;
};

}  // namespace toy

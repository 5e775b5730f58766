// Pages of prefixes that were computed earlier, by their tokens: a radix tree whose edges are pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "toy/decode/state.h"

namespace toy {

/// Finds the longest prefix of a text whose pages are still there. Holds pages of a state, which must outlive it, so
/// that they stay after their sequence. For states where pages are all that a sequence is (fits()).
class PrefixTree {
 public:
  explicit PrefixTree(DecodeState& state) : state_(state) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// Has the state neither windows nor recurrent layers?
  static bool fits(const DecodeState& state);
  /// Pages of the longest prefix of these tokens that was computed with these factors of the adapters. They count as
  /// used now.
  std::vector<int32_t> find(std::span<const int32_t> tokens, std::span<const float> adapters);
  /// The sequence holds these tokens, and perhaps more, computed so: its full pages become known.
  void insert(std::span<const int32_t> tokens, std::span<const float> adapters, int sequence);
  /// Gives back the page that was not used for the longest time and that no sequence holds. False: there is none.
  bool evict();
  int64_t pages() const { return int64_t(order_.size()); }

 private:
  struct Node {
    Node* parent = nullptr;
    int64_t depth = 0, number = 0, used_at = 0;
    int32_t page = 0;
    std::vector<int32_t> tokens;  // of the edge to it; of the first edge also the bits of the factors
    std::map<std::vector<int32_t>, std::unique_ptr<Node>> children;
  };
  // A child was not used later than its parent, so the first in this order has no children.
  using Key = std::tuple<int64_t, int64_t, int64_t>;  // used_at, -depth, number
  static Key key(const Node& n) { return {n.used_at, -n.depth, n.number}; }
  void touch(Node& node);

  DecodeState& state_;
  Node root_;
  std::map<Key, Node*> order_;
  int64_t now_ = 0, numbers_ = 0;
};

}  // namespace toy

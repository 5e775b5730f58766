// Prefixes that were computed earlier, by their tokens: a radix tree whose edges are pages.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "toy/decode/state.h"

namespace toy {

/// Which texts may share prefixes: those of the same owner, computed with the same factors of the adapters.
struct PrefixSpace {
  std::vector<float> adapters = {};
  int64_t owner = 0;
  bool operator==(const PrefixSpace&) const = default;
  bool operator<(const PrefixSpace& o) const { return owner != o.owner ? owner < o.owner : adapters < o.adapters; }
};

/// Finds the longest prefix of a text whose state is still there. Holds pages of a state, which must outlive it, so
/// that they stay after their sequence. An edge has the tokens of a page, or fewer: then no other follows.
/// Where pages are not all that a sequence holds (windows, recurrent layers), a prefix can be taken over only after
/// tokens whose state was kept: a snapshot. A text finds only what was computed in its PrefixSpace.
class PrefixTree {
 public:
  /// A prefix of a text, until the tree changes.
  struct Found {
    size_t length = 0;
    size_t known = 0;                  ///< length of the longest prefix in the tree, also without its state
    std::vector<int32_t> pages;        ///< of the shared pool
    const KeptState* state = nullptr;  ///< the rest, where there is one
  };

  explicit PrefixTree(DecodeState& state) : state_(state) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// The longest prefix of these tokens, which counts as used now.
  Found find(std::span<const int32_t> tokens, const PrefixSpace& space);
  /// The sequence holds these tokens, and perhaps more: its full pages become known. For states of pages only.
  void insert_pages(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence);
  /// The same to the last token, with a snapshot where that needs one: then as DecodeState::keep(), in place of the one
  /// that was not used for the longest time where there is no room. Nothing happens where no room can be made, or where
  /// the sequence has forgotten that state.
  void insert(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence);
  /// Gives back a page that no sequence holds, the one that was not used for the longest time, or its share of one that
  /// is not full, so that its sequence need not copy it. False: there is none.
  bool evict();
  /// The sequence computed these tokens itself: pages of the tree that hold the same and that no sequence uses give way
  /// to its own, of which later tokens follow. False: there are none.
  bool exchange(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence);
  int64_t pages() const { return int64_t(order_.size()); }
  int64_t snapshots() const { return int64_t(snapshots_.size()); }

 private:
  struct Node {
    Node* parent = nullptr;  // nullptr: a root
    int64_t depth = 0, number = 0, used_at = 0;
    int32_t page = -1;            // -1: there is no shared pool
    std::vector<int32_t> tokens;  // of the edge to it
    std::optional<KeptState> state;
    int64_t state_used_at = 0;
    std::map<std::vector<int32_t>, std::unique_ptr<Node>> children;
  };
  // A child was not used later than its parent, so the first in this order has no children.
  using Key = std::tuple<int64_t, int64_t, int64_t>;  // used_at, -depth, number
  static Key key(const Node& n) { return {n.used_at, -n.depth, n.number}; }
  static Key state_key(const Node& n) { return {n.state_used_at, -n.depth, n.number}; }
  void touch(Node& node);
  void touch_state(Node& node);
  Node& child(Node& parent, std::span<const int32_t> tokens, int sequence);
  Node* lookup(Node& root, std::span<const int32_t> tokens);
  bool evict_snapshot();
  void erase(Node* node);

  DecodeState& state_;
  std::map<PrefixSpace, Node> roots_;
  std::map<Key, Node*> order_, snapshots_;
  int64_t now_ = 0, numbers_ = 0;
};

}  // namespace toy

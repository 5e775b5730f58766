// Greedy merging, which both kinds of BPE are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace toy {

/// A word as a chain of symbols, of which neighbours are merged as long as there is a merge for any: the one of the
/// lowest rank first, the leftmost among equals. Takes time n log n. For reuse, so that a word costs no allocation.
class MergeChain {
 public:
  /// A run of text.
  struct Symbol {
    size_t begin, bytes;     // no bytes once it was merged into its left neighbour
    int32_t id;              // the caller's
    int64_t previous, next;  // -1: none
  };
  /// What two neighbours become.
  struct Merge {
    double rank;
    int32_t id;
    bool exists = true;
  };

  void add(size_t begin, size_t bytes, int32_t id = 0) {
    const int64_t i = int64_t(symbols_.size());
    if (i > 0) symbols_.back().next = i;
    symbols_.push_back({begin, bytes, id, i - 1, -1});
  }

  /// Merges with find(left, right), which gives a Merge; then calls emit(symbol) for what is left, and is empty.
  template <class Find, class Emit>
  void finish(const Find& find, const Emit& emit) {
    const auto add_pair = [&](int64_t left, int64_t right) {
      if (left < 0 || right < 0) return;
      const Symbol &a = symbols_[size_t(left)], &b = symbols_[size_t(right)];
      if (const Merge merge = find(a, b); merge.exists)
        pairs_.push({merge.rank, left, right, a.bytes + b.bytes, merge.id});
    };
    for (int64_t i = 1; i < int64_t(symbols_.size()); ++i) add_pair(i - 1, i);
    while (!pairs_.empty()) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      Symbol &left = symbols_[size_t(pair.left)], &right = symbols_[size_t(pair.right)];
      if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != pair.bytes) continue;  // out of date
      left.bytes = pair.bytes;
      left.id = pair.id;
      left.next = right.next;
      right.bytes = 0;
      if (left.next >= 0) symbols_[size_t(left.next)].previous = pair.left;
      add_pair(left.previous, pair.left);
      add_pair(pair.left, left.next);
    }
    for (int64_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[size_t(i)].next) emit(symbols_[size_t(i)]);
    symbols_.clear();
  }

 private:
  /// Out of date once either has grown or gone: their bytes then no longer sum up to `bytes`.
  struct Pair {
    double rank;
    int64_t left, right;
    size_t bytes;
    int32_t id;
    friend bool operator<(const Pair& a, const Pair& b) {  // the top of the queue is the largest
      return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
    }
  };
  std::vector<Symbol> symbols_;
  std::priority_queue<Pair> pairs_;
};

}  // namespace toy

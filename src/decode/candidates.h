// The tokens that may still be chosen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "toy/decode/sampler.h"

namespace toy {

/// The id that Candidates(logits, {}).draw(uniform) gives, and the sums of these logits, where there are many. Else,
/// and once in millions of draws, there is no id.
std::optional<int32_t> draw_of_logits(std::span<const float> logits, double uniform, std::optional<RowSums>& sums);

/// Tokens with their logits. Never sorted as a whole: the likeliest are put in front, twice as many as before at a
/// time, and where many are needed, they are selected without an order.
class Candidates {
 public:
  struct Item {
    double logit = 0;
    int32_t id = 0;
  };
  /// The tokens with a finite logit; those of `allowed`, a bit for each, if it is not empty.
  Candidates(std::span<const float> logits, std::span<const uint64_t> allowed);
  /// The likeliest tokens, in their order, those with a finite logit.
  Candidates(std::span<const int32_t> ids, std::span<const float> logits);

  size_t size() const { return items_.size(); }
  /// The i-th likeliest, equal ones by id. Costs a selection for the first i of each power of two.
  const Item& at(size_t i) {
    if (i >= sorted_) sort_first(i + 1);
    return items_[i];
  }
  /// In any order.
  std::span<const Item> items() const { return items_; }
  double largest() const;
  /// Of exp(logit - largest()).
  double total() const;

  /// Calls change(item) for those of these ids that there are; `ids` are sorted.
  template <class Change>
  void change(const std::vector<int32_t>& ids, Change&& change) {
    sorted_ = 0;
    const auto by_id = [](const Item& a, int32_t id) { return a.id < id; };
    if (by_id_) {
      for (const int32_t id : ids)
        if (const auto it = std::lower_bound(items_.begin(), items_.end(), id, by_id);
            it != items_.end() && it->id == id)
          change(*it);
    } else {
      for (Item& item : items_)
        if (std::binary_search(ids.begin(), ids.end(), item.id)) change(item);
    }
  }
  /// Divides all logits.
  void scale(double divisor) {
    for (Item& item : items_) item.logit /= divisor;
  }
  /// How many of the likeliest have a total of at least `mass`, or more than it, as total() counts; all of them if none
  /// do. They are in front then, the least likely of them last.
  size_t reach(double mass, bool beyond);
  /// Keeps the n likeliest. Few are in their order then, so that sums over them do not depend on the others.
  void keep_first(size_t n);
  /// Keeps the n in front, where reach() has put the likeliest.
  void keep_front(size_t n);
  /// Removes the n likeliest.
  void drop_first(size_t n);
  /// Keeps those for which keep(item) is true, at least the likeliest.
  template <class Keep>
  void keep_if(Keep&& keep) {
    const Item best = best_item();
    size_t sorted = 0, n = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!keep(items_[i])) continue;
      sorted += i < sorted_;
      items_[n++] = items_[i];
    }
    items_.resize(n);
    sorted_ = sorted;
    if (n == 0) items_ = {best};
  }
  /// One of them by its probability, `uniform` in [0, 1): the likeliest come first.
  int32_t draw(double uniform);
  const Item& best_item() const;

 private:
  void sort_first(size_t n);
  std::vector<Item> items_;
  size_t sorted_ = 0;  // as many are in order, in front
  bool by_id_ = true;  // all are in the order of their ids
};

}  // namespace toy

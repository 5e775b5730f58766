// Pairs in the order in which they came, found by key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/budget.h"

namespace toy::chat {

class Value;

/// @{
/// Keys of tables: names are texts; keys of dicts are values that Python can hash, equal as Python has them.
uint32_t hash_of_key(std::string_view key, Budget& budget);
inline uint32_t hash_of_key(const std::string& key, Budget& budget) {
  return hash_of_key(std::string_view(key), budget);
}
uint32_t hash_of_key(const Value& key, Budget& budget);
bool is_same_key(const std::string& key, std::string_view other, Budget& budget);
bool is_same_key(const Value& key, std::string_view other, Budget& budget);
bool is_same_key(const Value& key, const Value& other, Budget& budget);
/// @}

/// A few pairs are searched, more are hashed. Finding one is charged to the budget.
template <class Key, class Held = Value>
class Table {
 public:
  using Item = std::pair<Key, Held>;

  /// nullptr: there is none.
  template <class K>
  const Held* find(const K& key, Budget& budget) const {
    const size_t at = position(key, budget);
    return at == kNone ? nullptr : &items_[at].second;
  }
  /// The value of a key that is there already is replaced.
  void set(Key key, Held value, Budget& budget) {
    if (items_.empty()) hash_of_key(key, budget);  // throws for what can be no key
    const size_t at = position(key, budget);
    if (at != kNone) return void(items_[at].second = std::move(value));
    items_.emplace_back(std::move(key), std::move(value));
    if (items_.size() > kSearched) index(budget);
  }
  const std::vector<Item>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  void clear() { items_.clear(), slots_.clear(); }

 private:
  static constexpr size_t kSearched = 8, kNone = SIZE_MAX;
  struct Slot {
    uint32_t hash = 0, number = 0;  // number: of the item, from 1; 0: free
  };

  template <class K>
  size_t position(const K& key, Budget& budget) const {
    if (items_.size() <= kSearched) {
      for (size_t i = 0; i < items_.size(); ++i)
        if (is_same_key(items_[i].first, key, budget)) return i;
      return kNone;
    }
    const uint32_t hash = hash_of_key(key, budget);
    for (size_t at = hash & (slots_.size() - 1); slots_[at].number > 0; at = (at + 1) & (slots_.size() - 1)) {
      budget.spend(1);
      if (slots_[at].hash == hash && is_same_key(items_[slots_[at].number - 1].first, key, budget))
        return slots_[at].number - 1;
    }
    return kNone;
  }
  void insert(uint32_t hash, uint32_t number, Budget& budget) {
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].number > 0; at = (at + 1) & (slots_.size() - 1)) budget.spend(1);
    slots_[at] = {hash, number};
  }
  // After a new last item.
  void index(Budget& budget) {
    if (2 * items_.size() <= slots_.size())
      return insert(hash_of_key(items_.back().first, budget), uint32_t(items_.size()), budget);
    size_t slots = 32;
    while (slots < 4 * items_.size()) slots *= 2;
    budget.spend(slots / 2);
    slots_.assign(slots, {});
    for (size_t i = 0; i < items_.size(); ++i) insert(hash_of_key(items_[i].first, budget), uint32_t(i + 1), budget);
  }

  std::vector<Item> items_;
  std::vector<Slot> slots_;  // a power of two, at most half full; none: few items
};

}  // namespace toy::chat

// Ids of texts.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace toy {

/// From a text to its id. A hash table of its own: opening a model puts every token into several, which takes a
/// std::unordered_map an allocation each. The texts must outlive it.
class TokenIds {
 public:
  /// Room for so many, and for more.
  explicit TokenIds(size_t texts = 0) : slots_(std::bit_ceil(texts + texts / 3 + 2)) {}

  /// The first id of a text counts. Returns that one, or nullptr where the text is new.
  const int32_t* add(std::string_view text, int32_t id) {
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    const uint32_t hash = hash_of(text);
    Slot& slot = slots_[place(text, hash)];
    if (slot.text.data()) return &slot.id;
    slot = {text, hash, id};
    ++used_;
    return nullptr;
  }
  /// nullptr if there is none.
  const int32_t* find(std::string_view text) const {
    const Slot& slot = slots_[place(text, hash_of(text))];
    return slot.text.data() ? &slot.id : nullptr;
  }

 private:
  struct Slot {
    std::string_view text;  // nullptr: free
    uint32_t hash = 0;
    int32_t id = 0;
  };

  static uint32_t hash_of(std::string_view text) { return uint32_t(std::hash<std::string_view>()(text)); }
  size_t place(std::string_view text, uint32_t hash) const {
    for (size_t at = hash;; ++at) {
      const Slot& slot = slots_[at &= slots_.size() - 1];
      if (!slot.text.data() || (slot.hash == hash && slot.text == text)) return at;
    }
  }
  void grow() {
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : before)
      if (slot.text.data()) slots_[place(slot.text, slot.hash)] = slot;
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace toy

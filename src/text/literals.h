// Tokens that are found in a text as they are written, before anything else is done with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/spm/piece_trie.h"

namespace toy {

class Literals {
 public:
  Literals() = default;
  /// In any order; empty texts are left out, and of equal ones the lower id counts.
  explicit Literals(std::vector<PieceTrie::Entry> entries);

  struct Match {
    size_t begin = 0, bytes = 0;  ///< no bytes: there is none
    int32_t id = -1;
  };
  /// The longest that begins where the text begins.
  Match at(std::string_view text) const {
    return text.empty() || !first_bytes_[uint8_t(text[0])] ? Match() : longest_at(text);
  }
  /// The first in the text from `from` on, the longest there. Without one, `begin` is where one could begin in what
  /// follows the text: its end, or less unless `last`.
  Match find(std::string_view text, size_t from, bool last) const;
  /// Bytes of the longest.
  size_t longest() const { return longest_; }

 private:
  Match longest_at(std::string_view text) const;
  std::array<bool, 256> first_bytes_ = {};
  std::optional<PieceTrie> trie_;
  size_t longest_ = 0;
};

}  // namespace toy

// Cuts a text into the words of a pre-tokenizer.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "text/bpe/split_rules.h"

namespace toy {

/// Takes time linear in the text, whatever the text is.
class Splitter {
 public:
  explicit Splitter(const PreTokenizer& rules);

  using TakeWord = std::function<void(std::string_view)>;
  /// Calls take() for one word after the other; together they are the text. Unless `last`, more text follows, and the
  /// words that it could change are left out. Returns the bytes of the words given.
  size_t split(std::string_view text, bool last, const TakeWord& take) const { return split(0, text, !last, take); }

 private:
  size_t split(size_t pass, std::string_view text, bool open, const TakeWord& take) const;
  struct Pass {
    SplitPass rules;
    std::array<bool, 128> may_begin;  ///< ASCII characters that a match may begin with
  };
  std::vector<Pass> passes_;
};

}  // namespace toy

// What both encoders (merging and Viterbi) write to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/spm.h"

namespace toy {

class SpmIds {
 public:
  /// `text`: what is encoded; its first `prefix` bytes were added, so that positions in messages do not count them.
  SpmIds(const SpmTokenizer& tokenizer, std::string_view text, size_t prefix)
      : tokenizer_(tokenizer), text_(text), prefix_(prefix) {}

  void put(int32_t id);
  /// For a part of the text without a token: its bytes, or where there are no byte tokens one unknown token for a
  /// whole run, as in the library.
  void put_unknown(std::string_view piece);
  std::vector<int32_t> take() { return std::move(ids_); }

 private:
  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  size_t prefix_;
  std::vector<int32_t> ids_;
  bool after_unknown_ = false;
};

}  // namespace toy

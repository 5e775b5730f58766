// What both encoders (merging and Viterbi) write to.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/spm/spm.h"

namespace toy {

class SpmIds {
 public:
  /// `text`: what is encoded, behind `place`; its first `prefix` bytes were added, so that positions in messages do not
  /// count them. Ids are appended to `ids`.
  SpmIds(const SpmTokenizer& tokenizer, std::string_view text, size_t prefix, EncodePlace& place,
         std::vector<int32_t>& ids)
      : tokenizer_(tokenizer), text_(text), prefix_(prefix), place_(place), ids_(ids) {}

  void put(int32_t id);
  /// For a part of the text without a token: its bytes, or where there are no byte tokens one unknown token for a
  /// whole run, as in the library.
  void put_unknown(std::string_view piece);

 private:
  const SpmTokenizer& tokenizer_;
  std::string_view text_;
  size_t prefix_;
  EncodePlace& place_;
  std::vector<int32_t>& ids_;
};

}  // namespace toy

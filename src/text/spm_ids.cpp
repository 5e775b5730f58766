#include "text/spm_ids.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {

void SpmIds::put(int32_t id) {
  ids_.push_back(id);
  after_unknown_ = false;
}

void SpmIds::put_unknown(std::string_view piece) {
  if (tokenizer_.has_all_bytes_) {
    for (const char byte : piece) put(tokenizer_.byte_ids_[uint8_t(byte)]);
    return;
  }
  const std::optional<int32_t> unknown = tokenizer_.vocabulary_.unknown;
  check(unknown.has_value(),
        "{}: the vocabulary has no token for the character at byte {} of the text, and neither byte tokens nor an "
        "unknown token",
        tokenizer_.vocabulary_.source, std::max(size_t(piece.data() - text_.data()), prefix_) - prefix_);
  if (!after_unknown_) put(*unknown);
  after_unknown_ = true;
}

}  // namespace toy

#include "text/spm_ids.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {

void SpmIds::put(int32_t id) {
  ids_.push_back(id);
  place_.after_unknown = false;
}

void SpmIds::put_unknown(std::string_view piece) {
  if (tokenizer_.has_all_bytes_) {
    for (const char byte : piece) put(tokenizer_.byte_ids_[uint8_t(byte)]);
    return;
  }
  const std::optional<int32_t> unknown = tokenizer_.vocabulary_.unknown;
  if (!unknown)
    throw EncodeError(
        fmt::format("{}: the vocabulary has no token for the character at ", tokenizer_.vocabulary_.source),
        place_.bytes + std::max(size_t(piece.data() - text_.data()), prefix_) - prefix_,
        ", and neither byte tokens nor an unknown token");
  if (!place_.after_unknown) put(*unknown);
  place_.after_unknown = true;
}

}  // namespace toy

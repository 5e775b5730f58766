#include "text/spm/spm_ids.h"

#include <algorithm>

#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {

// What is no character cannot be an unknown one, and how many bytes it would stand for is anyone's guess.
EncodeError SpmTokenizer::not_utf8(uint64_t at) const {
  return {fmt::format("{}: the text is not UTF-8 at ", vocabulary_.source), at,
          ", and the vocabulary has no byte tokens to spell it with; convert it to UTF-8"};
}

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
  const std::string& source = tokenizer_.vocabulary_.source;
  const size_t at = place_.bytes + std::max(size_t(piece.data() - text_.data()), prefix_) - prefix_;
  if (!is_utf8(piece)) throw tokenizer_.not_utf8(at);
  if (!unknown)
    throw EncodeError(fmt::format("{}: the vocabulary has no token for the character at ", source), at,
                      ", and neither byte tokens nor an unknown token");
  if (!place_.after_unknown) put(*unknown);
  place_.after_unknown = true;
}

}  // namespace toy

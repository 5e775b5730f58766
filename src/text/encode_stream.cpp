// A text that comes in parts.
#include <algorithm>

#include "toy/text/tokenizer.h"

namespace toy {

// Where a chunk has no place to cut in, the next attempt is made at twice its length: the work stays proportional to
// the text.
void EncodeStream::push(std::string_view text, std::vector<int32_t>& ids) {
  pending_ += text;
  if (pending_.size() < enough_) return;
  pending_.erase(0, tokenizer_->encode_part(pending_, false, place_, ids, options_));
  enough_ = std::max(chunk_, 2 * pending_.size());
}

void EncodeStream::finish(std::vector<int32_t>& ids) {
  tokenizer_->encode_part(pending_, true, place_, ids, options_);
  pending_.clear();
  place_ = {};
  enough_ = chunk_;
}

}  // namespace toy

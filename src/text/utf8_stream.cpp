#include "toy/base/utf8.h"
#include "toy/text/tokenizer.h"

namespace toy {

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  // A character that waits for its end can only begin in the last three bytes, and only at a first byte:
  // continuation bytes never look like one, so the search cannot mistake the middle of a character for its
  // beginning.
  size_t ready = pending_.size();
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t at = pending_.size() - back;
    if (!utf8_cut_off(std::string_view(pending_).substr(at))) continue;
    ready = at;
    break;
  }
  std::string out = pending_.substr(0, ready);
  pending_.erase(0, ready);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out;
  out.swap(pending_);
  return out;
}

}  // namespace toy

#include "toy/decode/text_stream.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& s : stops_) check(!s.empty(), "stop: the text is empty; give at least one character");
}

std::string StopFilter::push(std::string_view bytes) {
  std::string ready;
  for (const char c : bytes) {
    if (stopped()) break;
    held_ += c;
    for (const std::string& s : stops_)
      if (held_.ends_with(s) && s.size() > found_.size()) found_ = s;
    if (stopped()) {
      ready += held_.substr(0, held_.size() - found_.size());
      held_.clear();
      break;
    }
    // The longest end of what is held that a stop string begins with stays; it is shorter than the string.
    size_t keep = 0;
    for (const std::string& s : stops_)
      for (size_t n = std::min(s.size() - 1, held_.size()); n > keep; --n)
        if (held_.ends_with(std::string_view(s).substr(0, n))) keep = n;
    ready += held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
  }
  return ready;
}

std::string StopFilter::finish() {
  std::string rest;
  rest.swap(held_);
  return rest;
}

TextStream::TextStream(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::vector<std::string> stops,
                       std::vector<int32_t> named)
    : tokenizer_(tokenizer),
      ends_(tokenizer.end_of_generation()),
      named_(std::move(named)),
      begun_(!tokenizer.decode(prompt).empty()),
      stop_(std::move(stops)) {}

std::string TextStream::push(int32_t id) {
  if (std::ranges::find(ends_, id) != ends_.end()) return {};
  const bool is_named = std::ranges::find(named_, id) != named_.end();
  const std::string bytes = is_named ? tokenizer_.written(id)
                            : begun_ ? tokenizer_.token_bytes(id)
                                     : tokenizer_.decode(std::span(&id, 1));
  begun_ = begun_ || !bytes.empty();
  return characters_.push(stop_.push(bytes));
}

std::string TextStream::finish() {
  std::string rest = characters_.push(stop_.finish());
  const std::string cut_off = characters_.finish();  // the beginning of a character
  return stopped() ? rest : rest + cut_off;
}

}  // namespace toy

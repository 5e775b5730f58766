#include "dialog/output_parser.h"

#include <algorithm>

namespace toy::dialog {

void OutputParser::add(Piece& to, const std::vector<ThoughtPart>& parts) {
  for (const ThoughtPart& part : parts)
    if (part.thought)
      to.thought += part.text;
    else if (calls_)
      to.append(calls_->push(part.text));
    else
      to.text += part.text;
}

Piece OutputParser::push(std::string_view bytes) {
  Piece piece;
  add(piece, thoughts_ ? thoughts_->push(bytes) : std::vector<ThoughtPart>{{std::string(bytes), false}});
  return piece;
}

Piece OutputParser::finish() {
  Piece piece;
  if (thoughts_) add(piece, thoughts_->finish());
  if (calls_) piece.append(calls_->finish());
  return piece;
}

ThoughtState thought_state_after(std::span<const int32_t> prompt, const Tokenizer& tokenizer,
                                 const std::string& chat_template) {
  constexpr size_t kMostTokens = 64;  // of a mark and blanks
  std::string end;
  for (const int32_t id : prompt.last(std::min(prompt.size(), kMostTokens))) {
    const std::string bytes = tokenizer.token_bytes(id);
    end += bytes.empty() ? tokenizer.written(id) : bytes;
  }
  return thought_state(end, chat_template);
}

}  // namespace toy::dialog

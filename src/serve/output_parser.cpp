#include "serve/output_parser.h"

namespace toy::serve {

void OutputParser::add(Piece& to, const std::vector<chat::ThoughtPart>& parts) {
  for (const chat::ThoughtPart& part : parts)
    if (part.thought)
      to.thought += part.text;
    else if (calls_)
      to.append(calls_->push(part.text));
    else
      to.text += part.text;
}

Piece OutputParser::push(std::string_view bytes) {
  Piece piece;
  add(piece, thoughts_ ? thoughts_->push(bytes) : std::vector<chat::ThoughtPart>{{std::string(bytes), false}});
  return piece;
}

Piece OutputParser::finish() {
  Piece piece;
  if (thoughts_) add(piece, thoughts_->finish());
  if (calls_) piece.append(calls_->finish());
  return piece;
}

}  // namespace toy::serve

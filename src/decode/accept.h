// What a call gives a text: scores of its prompt, hidden states, the next token, its end.
#pragma once

#include <span>

#include "decode/slots.h"
#include "toy/decode/decoder.h"

namespace toy {

/// What a call gives for a row that wants logits.
struct RowLogits {
  const Decoder* decoder;
  size_t row;
  std::span<const float> all() const { return decoder->logits(row); }
};

/// Appends the score of the prompt's token after this row, where it is wanted.
void score_prompt(Job& job, size_t position, const RowLogits& row);
/// Gives the text in a slot its next token, and ends it where that is the last one. Throws what its callbacks throw,
/// when the text has its token. `context`: positions of a sequence, of which it holds `length`.
void accept_token(Slot& slot, const RowLogits& row, int64_t length, int64_t context);
/// Gives on_hidden the state after a row, and ends the text after the last of its prompt.
void show_hidden(Slot& slot, size_t position, std::span<const float> hidden);

}  // namespace toy

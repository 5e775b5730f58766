// What a call gives a text: scores of its prompt, hidden states, the next token, its end.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <span>

#include "decode/slots.h"
#include "toy/decode/decoder.h"

namespace toy {

/// What a call gives for a row that wants logits.
struct RowLogits {
  const Decoder* decoder;
  size_t row;
  std::optional<size_t> hidden = {};  ///< its number among the hidden states, if it has some
  std::span<const float> all() const { return decoder->logits(row); }
};

/// A token that was drawn before its text takes it, or why there is none.
struct Drawn {
  std::optional<GeneratedToken> token = {};
  std::exception_ptr error = {};
};

/// Can the text's next token be drawn while others are? Constraints may share what they know of a grammar.
bool draws_apart(const Job& job);
/// Draws the text's next token.
Drawn draw(Job& job, const RowLogits& row);

/// Appends the score of the prompt's token after this row, where it is wanted.
void score_prompt(Job& job, size_t position, const RowLogits& row);
/// Gives the text in a slot its next token, and ends it where that is the last one. Throws what its callbacks throw,
/// when the text has its token. `drawn`: that token; drawn here where it is not there yet. `context`: positions of a
/// sequence, of which it holds `length`.
void accept_token(Slot& slot, const RowLogits& row, Drawn& drawn, int64_t length, int64_t context);
/// Gives on_hidden the state after a row, and ends the text after the last of its prompt.
void show_hidden(Slot& slot, size_t position, std::span<const float> hidden);

}  // namespace toy

// How a tokenizer puts two texts together, for encoders that read pairs.
#pragma once

#include <optional>

#include "toy/text/tokenizer.h"

namespace toy {

/// Whether two separators stand between the texts of a pair (RoBERTa), or one; absent: its file does not say
/// (`tokenizer.ggml.add_sep_token`).
std::optional<bool> separates_twice(const Tokenizer& tokenizer);

}  // namespace toy

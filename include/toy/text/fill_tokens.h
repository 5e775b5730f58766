// Control tokens of code models that fill holes.
#pragma once

#include <cstdint>
#include <optional>

#include "toy/text/tokenizer.h"

namespace toy {

/// The control tokens of a text with a hole: prefix, the text before, suffix, the text after, middle; what belongs in
/// the hole follows.
struct FillTokens {
  int32_t prefix = -1, suffix = -1, middle = -1;
};

/// Those of a vocabulary that has all three, by the file's keys or by their names.
std::optional<FillTokens> fill_tokens(const Tokenizer& tokenizer);

}  // namespace toy

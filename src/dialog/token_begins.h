// Which tokens of a text a part of it became.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/chat/chat_template.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// For each id where it begins in the text that was encoded with parse_special, and at last the text's end.
/// `letters`: those of EncodeOptions.
std::vector<size_t> token_begins(const Tokenizer& tokenizer, const std::string& text, std::span<const int32_t> ids,
                                 std::span<const size_t> letters = {});

}  // namespace toy

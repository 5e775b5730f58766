// Internal: recognizing the byte tokenizer in a file.
#pragma once

#include <span>
#include <string>

namespace toy {

/// Whether these are the tokens that the byte tokenizer writes: 256, token i standing for byte i.
bool are_byte_tokens(std::span<const std::string> tokens);

}  // namespace toy

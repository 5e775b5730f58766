// How byte-level vocabularies write bytes: as characters that can be printed (bytes_to_unicode in openai/gpt-2,
// src/encoder.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toy {

/// Itself where Latin-1 can print it, else U+0100, U+0101, ... in order of the bytes left over.
std::string byte_level_name(uint8_t byte);
/// The bytes that a name stands for; none if a character of it stands for no byte.
std::optional<std::string> byte_level_text(std::string_view name);

}  // namespace toy

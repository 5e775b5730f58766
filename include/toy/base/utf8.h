// UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace toy {

/// Bytes of the character that `text` starts with; 0 when it starts with none: empty, invalid, or cut off.
size_t utf8_character(std::string_view text);
/// Whether `text` is the beginning of a character and more bytes could complete it.
bool utf8_cut_off(std::string_view text);
/// Whether all of it is valid UTF-8.
bool is_utf8(std::string_view text);
/// The text with U+FFFD for every byte that is not part of a valid character.
std::string valid_utf8(std::string_view text);
/// A name for a terminal, a message or XML: as valid_utf8(), and with `?` for every control character (line breaks,
/// escapes, U+0080 to U+009F), so it stays on its line and cannot change the terminal.
std::string one_line(std::string_view text);
/// The same for a text of several lines: line breaks and tabs stay.
std::string printable(std::string_view text);
/// Text for HTML and XML: as printable(), with &, <, >, " and ' as entities and U+FFFD for the code points that XML
/// forbids (U+FFFE, U+FFFF).
std::string markup(std::string_view text);
/// The columns that a text takes on a terminal: two for each of the wide characters of East Asia and for pictures, none
/// for marks that combine with the character before. (After Unicode's annex 11; the common blocks.)
size_t terminal_columns(std::string_view text);
/// The longest prefix that takes at most `columns` columns.
std::string_view first_columns(std::string_view text, size_t columns);
/// The text, or of a longer one the characters within its first `most` bytes, and "...".
std::string first_bytes(std::string_view text, size_t most);
/// The character of a code point (not checked: below 0x110000 and no surrogate).
std::string utf8_encode(uint32_t code_point);

}  // namespace toy

// Texts as Python sees them: sequences of code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toy::chat {

/// Code points of a text.
int64_t count_characters(std::string_view text);
/// Where the character `n` begins, from 0; the end where there are fewer.
size_t character_begin(std::string_view text, int64_t n);
/// Where the last `n` characters begin; 0 where there are fewer.
size_t last_characters(std::string_view text, int64_t n);
/// The text, cut into them.
std::vector<std::string_view> characters(std::string_view text);
/// str.splitlines().
std::vector<std::string_view> lines(std::string_view text, bool with_ends = false);
/// Python's str.isspace() of one.
bool is_space(uint32_t code_point);
/// Where the text ends that begins with white space.
size_t leading_space(std::string_view text);
/// @{
/// str.strip() and its kin; `chars`: which characters, nullptr for white space.
std::string_view strip(std::string_view text, bool left, bool right, const std::string* chars = nullptr);
/// @}
/// @{
/// Python's str.isalpha() and its kin of one.
bool is_alpha(uint32_t code_point);
bool is_decimal(uint32_t code_point);
int decimal_value(uint32_t code_point);
bool is_digit(uint32_t code_point);
bool is_numeric(uint32_t code_point);
bool is_alnum(uint32_t code_point);
bool is_printable(uint32_t code_point);
/// What \w means in Python.
bool is_word(uint32_t code_point);
/// @}
/// str.islower(), str.isupper() and str.istitle().
enum class Letters { lower, upper, title };
bool are_all(Letters kind, std::string_view text);
std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string casefold(std::string_view text);
std::string swapcase(std::string_view text);
/// The first character in title case, the others in lower case.
std::string capitalize(std::string_view text);
/// Every word capitalized. `by_words`: Jinja's filter, whose words end at white space, - and brackets; else
/// str.title(), whose words are letters.
std::string title(std::string_view text, bool by_words);
/// repr() of a text.
std::string repr(std::string_view text);
/// repr() of a number.
std::string repr(double number);
/// A JSON string. `ascii`: with \u for all others.
std::string json_string(std::string_view text, bool ascii);

}  // namespace toy::chat

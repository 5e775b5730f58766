// What Unicode says about characters. The one place that sees utf8proc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace toy {

/// A character of a text. A byte that is not UTF-8 counts as U+FFFD, as in llama.cpp.
struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;
};
/// The first one of a text that is not empty.
CodePoint first_code_point(std::string_view text);

/// "Lu", "Nd", ...; "Cn" where nothing is assigned.
std::string_view category_of(uint32_t code_point);
/// The property White_Space: what \s is for Oniguruma, and so for Hugging Face's tokenizers.
bool is_white_space(uint32_t code_point);
/// @{
/// The simple mappings.
uint32_t lower_case(uint32_t code_point);
uint32_t upper_case(uint32_t code_point);
uint32_t title_case(uint32_t code_point);
/// @}
/// The full case folding, of up to three characters.
std::u32string case_folded(uint32_t code_point);
/// The canonical decomposition, complete (NFD of this character).
std::u32string decomposed(uint32_t code_point);

}  // namespace toy

// Files with a text per line.
#pragma once

#include <string>
#include <vector>

#include "bind/embed_texts.h"

namespace toy::cli {

/// Each line is a text, or, where it begins with `{`, {"text": "words"} or {"ids": [1, 2]}. "-" is standard input.
/// Throws Error{bad_input} naming file and line for another object, and for a file without lines.
std::vector<bind::TextToEmbed> read_text_lines(const std::string& path);

/// Says on stderr how many of these texts were cut after `most` tokens, if any.
void note_cut_texts(const std::vector<bool>& cut, int64_t most);

}  // namespace toy::cli

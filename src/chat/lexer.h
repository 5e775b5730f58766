// The words of a template. Whitespace is controlled as transformers has it: trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/ast.h"

namespace toy::chat {

/// A word, or the text between {{ }}, {% %} and {# #}.
struct Token {
  enum Kind { text, print_begin, print_end, block_begin, block_end, name, string, integer, real, symbol, end };
  Kind kind = end;
  SourcePlace place;
  std::string value;  ///< of a string what it stands for
};

/// Throws Error{bad_input} naming the place.
[[noreturn]] void fail_at(const std::string& name, SourcePlace place, const std::string& what);

/// The last one is `end`. Throws Error{bad_input} for what is no template.
std::vector<Token> tokenize(const std::string& source, const std::string& name);

/// The message that a token is in.
std::string shown(const Token& token);

}  // namespace toy::chat

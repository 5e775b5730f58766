// Patterns of JSON Schema: the regular part of ECMAScript's expressions.
#pragma once

#include <string>
#include <string_view>

#include "grammar/char_automaton.h"
#include "grammar/expr.h"

namespace toy::grammar {

/// All texts that a pattern is found in; with ^ and $, those that it is. \d, \w and \s are ASCII. Throws
/// Error{bad_input} "NAME: ..." for what is no pattern, or not regular: look-around, back references, \b, and ^ or $ in
/// the middle.
Expr parse_regex(std::string_view pattern, const Payer& payer);

/// The texts of a format of JSON Schema, as a pattern; nullptr: it is not known. Each text is valid, not every valid
/// text is one of them: dates have no 29 February, URIs are of http and https.
const char* format_pattern(std::string_view format);

}  // namespace toy::grammar

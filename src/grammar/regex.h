// Patterns of JSON Schema: the regular part of ECMAScript's expressions.
#pragma once

#include <string_view>

#include "grammar/char_automaton.h"

namespace toy::grammar {

/// All texts that a pattern is found in. ^, $ and \b may be anywhere; (?=A) and (?!A) follow a ^ that begins the
/// pattern. Throws Error{bad_input} "NAME: ..." for what is no pattern, or not regular: other look-around and back
/// references.
CharAutomaton regex_automaton(std::string_view pattern, const Payer& payer);

}  // namespace toy::grammar

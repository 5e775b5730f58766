// The formats of JSON Schema, as their standards define them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "grammar/char_automaton.h"

namespace toy::grammar {

/// Texts of a format: those of the automaton that have so many code points; most -1: any number.
struct FormatTexts {
  CharAutomaton automaton;
  int64_t most = -1;
};

/// nullopt for a format that is not known, which restricts nothing. docs/structured-output.md names the standards and
/// what is left out of them.
std::optional<FormatTexts> format_texts(std::string_view format, const Payer& payer);

}  // namespace toy::grammar

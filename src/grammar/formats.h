// The formats of JSON Schema, as their standards define them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "grammar/char_automaton.h"

namespace toy::grammar {

/// Texts of a format that are written: those of the automaton that have so many code points; most -1: any number. All
/// of them are valid, but a standard may allow others.
struct FormatTexts {
  CharAutomaton automaton;
  int64_t most = -1;
};

/// nullopt for a format that is not known, which restricts nothing. docs/structured-output.md names the standards and
/// what is left out of them.
std::optional<FormatTexts> format_texts(std::string_view format, const Payer& payer);
/// All texts that the standard allows in any reading, and perhaps others: what is not among them is certainly invalid.
/// nullopt where those of format_texts() are all.
std::optional<CharAutomaton> wide_format_texts(std::string_view format, const Payer& payer);

}  // namespace toy::grammar

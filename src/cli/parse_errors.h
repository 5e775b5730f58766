// Errors of a command line in our own words: the option, its value, what to use.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// One sentence about an error of the parser. `words` are the arguments; `root` has parsed them as far as it came.
std::string explain(const CLI::App& root, const CLI::ParseError& error, const std::vector<std::string>& words);

/// The same for an unknown word where a command is expected; else "".
std::string explain_unknown_command(const CLI::App& root, const std::vector<std::string>& words);

/// Throws Error{bad_input} where an option would refuse this value: no number, out of its range, none of its words.
void check_value(const CLI::Option& option, std::string text);

/// Makes every option of numbers, in every command, take whole or finite decimal numbers that fit, and nothing else.
/// The parser's own conversions clamp what is too large, and take nan, octal numbers and "true". What does not fit
/// throws Error{bad_input} with option, value and range. Call it when all commands are there.
void make_numbers_strict(CLI::App& root);

}  // namespace toy::cli

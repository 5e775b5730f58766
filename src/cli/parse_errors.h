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

}  // namespace toy::cli

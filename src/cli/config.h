// --config FILE: options from a JSON file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// Adds --config to a command. with_config() reads it.
void add_config_option(CLI::App& app);

/// The words of a command line (without the program), followed by what the file of a --config adds: an object whose
/// keys are the command's long options. The command line overrides it. Throws Error{bad_input} naming the file and the
/// key for one that the command does not know, with the nearest it does, and for a value of another kind than the
/// option takes.
std::vector<std::string> with_config(const CLI::App& root, std::vector<std::string> words);

}  // namespace toy::cli

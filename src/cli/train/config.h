// Options from files: --config FILE, and the config.json of the run that `toy train --resume --out DIR` resumes.
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

/// The words of a command line. Where they resume a run without saying which texts it reads, they get `--config
/// DIR/config.json` and, if need be, the recipe. Throws Error{bad_input} where DIR has no config.json and no recipe is
/// given, or a file that the options name is not there.
std::vector<std::string> with_resumed_options(const CLI::App& root, std::vector<std::string> words);

/// The command that resumes the run in folder `out` from the current folder. Short where DIR/config.json holds every
/// value exactly, which JSON cannot do for bytes that are not UTF-8.
std::string how_to_resume(const CLI::App& recipe, const std::string& out);

}  // namespace toy::cli

// `toy train --resume --out DIR`: a run is resumed with the options that its own config.json holds.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// The words of a command line (without the program). Where they resume a run without saying which texts it reads, they
/// get `--config DIR/config.json` and, if need be, the recipe; options among the words override those of the file.
/// Other words are returned as they are. Throws Error{bad_input} where DIR has no config.json and no recipe is given,
/// or a file that the options name is not there.
std::vector<std::string> with_resumed_options(const CLI::App& root, std::vector<std::string> words);

/// The command that resumes the run in folder `out` from the current folder. Short where DIR/config.json holds every
/// value exactly, which JSON cannot do for bytes that are not UTF-8.
std::string how_to_resume(const CLI::App& recipe, const std::string& out);

}  // namespace toy::cli

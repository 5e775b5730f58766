// Words of a command line that are no values of options and no arguments: what was meant by them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// "toy train from-scratch"
std::string full_name(const CLI::App& app);
/// "--out", "MODEL"
std::string shown_name(const CLI::Option& option);

/// Whether a path is that of a GGUF file or of a run's folder with one.
bool is_model_file(const std::string& path);
/// Is the text the name of a GGUF file that is there, as a pattern of the shell makes it?
bool is_gguf_there(const std::string& text);
/// A path with spaces, which is several words for the shell; else "".
std::string explain_spaces(const std::vector<std::string>& words);
/// `--stop A B` of an option that is written before each value, in a command that takes arguments, too; else "".
std::string explain_repeated(const CLI::App& app, const std::vector<std::string>& words);
/// A text between the quotes of a text program, which is several words for the shell; else "".
std::string explain_quotes(const std::vector<std::string>& words);
/// `toy merge MODEL ADAPTER`, before it says what else is missing; else "".
std::string explain_adapter(const CLI::App& app, const std::vector<std::string>& arguments);
/// A word that is too many. `text` is the parser's, and ends with ": WORD".
std::string explain_extra(const CLI::App& app, const std::string& text, const std::vector<std::string>& words);

}  // namespace toy::cli

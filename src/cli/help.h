// What --help shows and what an option accepts: groups, values, ranges. The same notes drive the manifest, the errors
// and shell completion. They are validators of CLI11 with a name, so they live as long as their option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// Options added to `app` from now on stand under this heading.
void begin_group(CLI::App& app, const char* group);
/// --help shows these options of the command; all others are left to --help-all.
void show_in_help(CLI::App& app, const std::vector<const char*>& names);

/// Numbers that an option accepts, bounds included. The help shows the range, and an error names it.
CLI::Validator at_least(double least);
CLI::Validator from_to(double least, double most);
CLI::Validator above(double bound);                      ///< greater than it
CLI::Validator from_to_below(double least, double end);  ///< without `end`
CLI::Validator above_to(double begin, double most);      ///< without `begin`
CLI::Validator from_to_or_0(double least, double most);

/// Exactly these words. An error names the nearest.
CLI::Validator one_of(std::vector<std::string> words);
/// Words for shell completion among values that it cannot know.
CLI::Validator suggested(std::vector<std::string> words, bool or_file = false);
/// The name of a file or of a folder. An empty one is refused: it is what a variable of a script holds that is not set.
CLI::Validator file_name();
CLI::Validator folder_name();
/// Any other text but an empty one.
CLI::Validator not_empty();

/// What the validators above say of an option.
struct ValueNotes {
  std::string range;               ///< "1 to 1024", or ""
  std::vector<std::string> words;  ///< to choose from
  bool only_words = false;         ///< nothing else is accepted
  bool file = false, folder = false;
};
ValueNotes notes_of(const CLI::Option& option);
/// What a value violates, as "is 5; use 0 to 1", or "".
std::string violation(const CLI::Option& option, std::string value);

/// The heading of an option, and whether only --help-all shows it.
std::string group_of(const CLI::Option& option);
bool is_advanced(const CLI::Option& option);
/// --help or --help-all.
bool is_help(const CLI::Option& option);
/// "N", "FILE", "f32|bf16", or "" of a flag.
std::string placeholder(const CLI::Option& option);

/// Shows the common options by group, wrapped to the terminal (80 columns where there is none; $COLUMNS goes first).
class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// Wraps prose. Lines that begin with a space are commands: they break before an option, with a backslash.
std::string wrapped(const std::string& text, size_t columns);

}  // namespace toy::cli

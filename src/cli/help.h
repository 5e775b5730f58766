// Options: what they accept, and what --help and --manifest say of them. Ranges and words are validators of CLI11 with
// a name, so help, errors, the manifest and shell completion follow from one statement.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace toy::cli {

/// Options added to `app` from now on stand under this heading.
void begin_group(CLI::App& app, const char* group);
/// --help shows these options of the command; all others are left to --help-all.
void show_in_help(CLI::App& app, const std::vector<const char*>& names);

/// What an option of numbers of type T takes: a whole or finite decimal number that fits, and nothing else. (The
/// parser's own conversions clamp what is too large, and take nan, octal numbers and "true".)
template <class T>
CLI::Validator number(const CLI::Option& option);

/// An option, or a positional argument where the name has no dashes. The variable's value is the default that the help
/// shows, unless `help` states one. An option that fills a vector may be given several times, each time with one value.
template <class T, class... Accepts>
CLI::Option* add_option(CLI::App& app, const std::string& name, T& value, const std::string& help,
                        const Accepts&... accepts) {
  CLI::Option* option = app.add_option(name, value, help);
  (option->check(accepts), ...);
  if constexpr (std::is_arithmetic_v<T>) option->transform(number<T>(*option));
  if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>)
    if constexpr (std::is_arithmetic_v<typename T::value_type>)
      option->transform(number<typename T::value_type>(*option));
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    if (help.find("(default: ") == help.npos) option->capture_default_str();
  if (name.starts_with("-") && option->get_items_expected_max() > 1) option->allow_extra_args(false);
  return option;
}

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
CLI::Validator suggested(const std::vector<std::string>& words, bool or_file = false);
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
/// What a value violates, as "is 5; use 0 to 1", or "": no number, out of its range, none of its words.
std::string violation(const CLI::Option& option, std::string value);

/// --help or --help-all.
bool is_help(const CLI::Option& option);
/// Whether it takes no value.
bool is_flag(const CLI::Option& option);

/// Every command and option as data: {"name", "summary", "options": [...], "commands": [...]}. An option has "name",
/// "positional", "required", "takes_value", "help" and "group"; where they apply "letter", "advanced" (only --help-all
/// shows it), "repeatable", "default", "range", "values" (all, or some with "other_values"), "file", "folder".
nlohmann::ordered_json manifest(const CLI::App& app);

/// What --help shows, in the signature of CLI11's formatters: the common options by group, wrapped to the terminal (80
/// columns where there is none; $COLUMNS goes first).
std::string help_text(const CLI::App* app, std::string name, CLI::AppFormatMode mode);

}  // namespace toy::cli

// Options: what they accept, and what --help and --manifest say of them. Limits and words become validators of CLI11
// with a name, so help, errors, the manifest and shell completion follow from one statement.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "toy/base/options.h"
#include "toy/tensor/dtype.h"

namespace toy::cli {

/// Options added to `app` from now on stand under this heading.
void begin_group(CLI::App& app, const char* group);
/// --help shows these options of the command; all others are left to --help-all.
void show_in_help(CLI::App& app, const std::vector<const char*>& names);

/// What an option of numbers of type T takes: a whole or finite decimal number within limits, and nothing else. (The
/// parser's own conversions clamp what is too large, and take nan, octal numbers and "true".) The help shows the
/// limits, and an error names them.
template <class T>
CLI::Validator number(const Limits& limits);

/// T, or of a vector or an optional what is in it.
template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
requires requires { typename T::value_type; }
struct ElementOf<T> {
  using type = typename T::value_type;
};

/// An option, or a positional argument where the name has no dashes. The variable's value is the default that the help
/// shows, unless `help` states one. An option that fills a vector may be given several times, each time with one value.
/// `accepts`: validators, and of numbers Limits.
template <class T, class... Accepts>
CLI::Option* add_option(CLI::App& app, const std::string& name, T& value, std::string_view help,
                        const Accepts&... accepts) {
  CLI::Option* option = app.add_option(name, value, std::string(help));
  Limits limits;
  [[maybe_unused]] const auto take = [&](const auto& what) {
    if constexpr (std::is_same_v<std::decay_t<decltype(what)>, Limits>)
      limits = what;
    else
      option->check(what);
  };
  (take(accepts), ...);
  using Element = typename ElementOf<T>::type;
  if constexpr (std::is_arithmetic_v<Element> && !std::is_same_v<Element, char>)
    option->transform(number<Element>(limits));
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    if (help.find("(default: ") == help.npos) option->capture_default_str();
  if (name.starts_with("-") && option->get_items_expected_max() > 1) option->allow_extra_args(false);
  return option;
}

/// Can words of a command line fill it?
template <class T>
inline constexpr bool takes_words =
    std::is_arithmetic_v<typename ElementOf<T>::type> || std::is_same_v<typename ElementOf<T>::type, std::string> ||
    std::is_same_v<T, std::string>;

/// What shell completion offers for a text option of this name, and what its help shows for "{}"; most have none.
std::vector<std::string> known_words(std::string_view option);
/// The type of this name, if there is one.
std::optional<DType> type_named(std::string_view name);
/// An option whose texts `take` reads; `several`: it may be repeated.
CLI::Option* add_texts(CLI::App& app, const std::string& names, const std::string& help, bool several,
                       const std::string& shown_default, const std::function<void(const std::string&)>& take);
/// Adds to an option what its list says of it, and `words` that it may be, and no others if they are `all`.
void describe(CLI::App& app, CLI::Option& added, const Option& option, std::vector<std::string> words, bool all);

/// An option of a list, if command lines have it (Option::group) and it is not there already; a bool is a flag. Reads
/// into `value` what is a number, a plain text or a name.
template <class T>
void add_listed_option(CLI::App& app, const Option& option, T& value) {
  if (option.group.empty() || app.get_option_no_throw(option.flag())) return;
  const std::string names(option.flags.empty() ? option.flag() : option.flags), help(option.help);
  begin_group(app, std::string(option.group).c_str());
  constexpr bool kIsName = Named<T>, kHasKind = requires { value.kind; };
  std::vector<std::string> words;
  const auto take_names = [&](const auto& v) {
    for (const auto& [name, e] : NamesOf<std::decay_t<decltype(v)>>::list) words.emplace_back(name);
  };
  CLI::Option* added = nullptr;
  if constexpr (std::is_same_v<T, bool>) {
    added = app.add_flag(names, value, help);
  } else if constexpr (kIsName) {
    take_names(value);
    added = add_texts(app, names, help, false, name_in_list(value),
                      [&value](const std::string& text) { read_value(text, {}, value); });
  } else if constexpr (kHasKind) {
    take_names(value.kind);
    added = add_texts(app, names, help, false, name_in_list(value.kind), {});
  } else if constexpr (takes_words<T>) {
    if (std::is_arithmetic_v<T> && !option.text.empty())
      added = add_texts(app, names, help, false, "", [option, &value](const std::string& text) {
        const std::string wrong = read_texts(option, {text}, value);
        check(wrong.empty(), "{} {}", option.flag(), wrong);
      });
    else
      added = add_option(app, names, value, option.help, option.limits);
  } else if constexpr (std::is_same_v<T, std::optional<DType>>) {
    added = add_texts(app, names, help, false, "", [&value](const std::string& text) { value = type_named(text); });
  } else if constexpr (std::is_same_v<T, DType>) {
    added = add_texts(app, names, help, false, std::string(name_of(value)), {});
  } else {
    added = add_texts(app, names, help, true, "", {});
  }
  describe(app, *added, option, std::move(words), kIsName && option.text.empty());
}

/// Those of a list; `only`: of these names.
template <class Options>
void add_listed(CLI::App& app, Options& options, std::initializer_list<std::string_view> only = {}) {
  Options::fields(options, [&](const Option& option, auto& value) {
    if (only.size() == 0 || std::find(only.begin(), only.end(), option.name) != only.end())
      add_listed_option(app, option, value);
  });
}

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

#include "cli/help.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/tables.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

constexpr const char *kNumber = "number", *kWords = "words", *kSuggested = "suggested", *kFile = "file",
                     *kFolder = "folder";
constexpr std::string_view kAdvanced = " (advanced)";  // ends the group of an option that only --help-all shows
// Headings in the order of the help; others follow.
constexpr const char* kGroups[] = {"Model",       "Adapter", "Preferences", "Quantization", "Prompt",    "Conversation",
                                   "Tools",       "Data",    "Batch",       "Sampling",     "Optimizer", "Schedule",
                                   "Checkpoints", "Output",  "Machine",     "Debugging",    "Options"};
constexpr size_t kTermWidth = 24;  // the column where meanings begin

CLI::Validator refuses_empty(const char* description, const char* name, const char* use) {
  const auto check = [use](std::string& value) { return value.empty() ? fmt::format("is empty; use {}", use) : ""; };
  return {check, description, name};
}

// The option's validator of this name, or nullptr.
const CLI::Validator* find(const CLI::Option& option, const char* name) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(name);  // changes nothing, but is not const
  } catch (const CLI::OptionNotFound&) {
    return nullptr;
  }
}

bool is_advanced(const CLI::Option& option) { return option.get_group().ends_with(kAdvanced); }

std::string group_of(const CLI::Option& option) {
  const std::string& group = option.get_group();
  return group.substr(0, group.size() - (is_advanced(option) ? kAdvanced.size() : 0));
}

// "N", "FILE", "f32|bf16" where that is short, or "" of a flag.
std::string placeholder_of_one(const CLI::Option& option) {
  if (!option.get_option_text().empty()) return option.get_option_text();
  const ValueNotes notes = notes_of(option);
  if (notes.file) return "FILE";
  if (notes.folder) return "FOLDER";
  if (const std::string words = fmt::format("{}", fmt::join(notes.words, "|")); notes.only_words)
    return option.get_name().size() + words.size() + 5 <= kTermWidth ? words : "NAME";
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") ? "N" : type.starts_with("FLOAT") ? "X" : "TEXT";
}

// The same with dots where the option may be repeated.
std::string placeholder(const CLI::Option& option) {
  if (is_flag(option)) return {};
  return placeholder_of_one(option) + (option.get_items_expected_max() > 1 && !option.get_positional() ? "..." : "");
}

size_t help_columns() {
  const char* given = std::getenv("COLUMNS");
  const long columns = given ? std::strtol(given, nullptr, 10) : 0;
  return size_t(std::clamp<long>(columns > 0 ? columns : terminal_width(STDOUT_FILENO), 30, 1000));
}

// A command, cut before an option, with a backslash.
std::string wrapped_command(const std::string& line, size_t columns) {
  std::string out;
  size_t used = 0;
  for (size_t at = 0, stop = 0; at < line.size(); at = stop) {
    stop = std::min(line.find(" --", at + 1), line.size());
    if (used > 0 && used + (stop - at) + 2 > columns) out += " \\\n     ", used = 5;
    out.append(line, at, stop - at), used += stop - at;
  }
  return out;
}

// Lines of prose, and commands, which begin with a space.
std::string wrapped_lines(const std::string& text, size_t columns) {
  std::string out;
  for (const std::string& line : CLI::detail::split(text, '\n'))
    out += (line.starts_with(" ") ? wrapped_command(line, columns) : wrapped(line, columns)) + "\n";
  return out;
}

// A term and what it means; `width` is the column where meanings begin.
std::string entry(const std::string& term, const std::string& meaning, size_t width, size_t columns) {
  const std::string gap =
      term.size() + 4 > width ? "\n" + std::string(width, ' ') : std::string(width - 2 - term.size(), ' ');
  return fmt::format("  {}{}{}\n", term, gap, wrapped(meaning, columns, width));
}

std::string names_of(const CLI::Option& o) {
  const std::string letter = o.get_snames().empty() ? "" : "-" + o.get_snames()[0] + ", ";
  const std::string value = placeholder(o);
  return fmt::format("{}--{}{}", letter, o.get_lnames()[0], value.empty() ? "" : " " + value);
}

std::string meaning_of(const CLI::Option& o) {
  constexpr size_t kLongest = 12;  // of a range that helps more than it disturbs
  std::string text = o.get_description();
  std::vector<std::string> more;
  const ValueNotes notes = notes_of(o);
  if (const std::string& range = notes.range; range.find(" to ") != range.npos && range.size() <= kLongest)
    more.push_back(range);
  const bool all_said = std::ranges::all_of(
      notes.words, [&](const std::string& w) { return text.find(w) != text.npos || w == o.get_default_str(); });
  if (notes.only_words && placeholder_of_one(o) == "NAME" && !all_said) more.push_back(alternatives(notes.words));
  if (const size_t at = text.find(" (default: "); at != text.npos && text.ends_with(")")) {
    more.push_back(text.substr(at + 2, text.size() - at - 3));
    text.erase(at);
  }
  if (!o.get_default_str().empty()) more.push_back("default: " + o.get_default_str());
  if (!o.get_positional() && o.get_required()) more.push_back("required");
  return text + (more.empty() ? "" : fmt::format(" ({})", fmt::join(more, "; ")));
}

std::string commands_below(const CLI::App& app, const std::string& path, size_t columns, bool all) {
  std::string out;
  for (const CLI::App* sub : app.get_subcommands({})) {
    out += entry(path + sub->get_name(), sub->get_description(), all ? 26 : 16, columns);
    if (all) out += commands_below(*sub, path + sub->get_name() + " ", columns, all);
  }
  return out;
}

}  // namespace

void begin_group(CLI::App& app, const char* group) { app.option_defaults()->group(group); }

void show_in_help(CLI::App& app, const std::vector<const char*>& names) {
  std::vector<const CLI::Option*> common;
  for (const char* name : names) common.push_back(app.get_option(name));
  for (CLI::Option* o : app.get_options())
    if (!o->get_positional() && !is_help(*o) && std::find(common.begin(), common.end(), o) == common.end())
      o->group(group_of(*o) + std::string(kAdvanced));
}

CLI::Option* add_texts(CLI::App& app, const std::string& names, const std::string& help, bool several,
                       const std::string& shown_default, const std::function<void(const std::string&)>& take) {
  using Texts = std::vector<std::string>;
  if (several)
    return app
        .add_option_function<Texts>(
            names, [](const Texts&) {}, help)
        ->allow_extra_args(false);
  CLI::Option* option = app.add_option_function<std::string>(
      names, [take](const std::string& text) { return take ? take(text) : void(); }, help);
  return shown_default.empty() ? option : option->default_str(shown_default);
}

void describe(CLI::App& app, CLI::Option& added, const Option& option, std::vector<std::string> words, bool all) {
  if (words.empty()) words = known_words(option.name);
  std::string help = added.get_description();
  if (const size_t at = help.find("{}"); at != help.npos) {
    const bool of_more = help.substr(at + 2).starts_with(" or");
    added.description(help.replace(at, 2, of_more ? fmt::format("{}", fmt::join(words, ", ")) : alternatives(words)));
  }
  const bool file = option.text == "FILE";
  if (option.text.find('|') != option.text.npos) {
    words = CLI::detail::split(std::string(option.text), '|');
    all = option.text.find(':') == option.text.npos;
  }
  if (file) added.check(file_name());
  if (option.text == "SIZE") added.check(not_empty());
  if (option.text == "FOLDER") added.check(folder_name());
  if (all)
    added.check(one_of(words));
  else if (!words.empty())
    added.check(suggested(words, option.name == "size"));
  else if (!file && option.text != "FOLDER" && !option.text.empty())
    added.option_text(std::string(option.text));
  if (option.derived) added.default_str("");
  if (option.required) added.required();
  if (!option.excludes.empty())
    if (CLI::Option* other = app.get_option_no_throw("--" + std::string(option.excludes))) added.excludes(other);
}

template <class T>
CLI::Validator number(const Limits& limits) {
  const auto check = [limits](std::string& text) {
    T value = 0;
    std::string wrong = read_number(text, limits, value);
    if (std::is_integral_v<T> && wrong.empty()) text = fmt::format("{}", value);  // the parser takes 010 for 8
    return wrong;
  };
  return {check, limits.text(), kNumber};
}
template CLI::Validator number<int>(const Limits&);
template CLI::Validator number<int64_t>(const Limits&);
template CLI::Validator number<uint64_t>(const Limits&);
template CLI::Validator number<float>(const Limits&);
template CLI::Validator number<double>(const Limits&);

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string list = fmt::format("{}", fmt::join(words, "|"));
  const auto check = [words = std::move(words)](std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    if (const std::string near = meant_choice(value, words); !near.empty())
      return fmt::format("is '{}'; did you mean '{}'?", value, near);
    return fmt::format("is '{}'; use {}", value, alternatives(words));
  };
  return {check, list, kWords};
}

CLI::Validator suggested(const std::vector<std::string>& words, bool or_file) {
  return {[](std::string&) { return ""; }, fmt::format("{}{}", fmt::join(words, "|"), or_file ? "|FILE" : ""),
          kSuggested};
}
CLI::Validator file_name() {
  const auto check = [](std::string& value) -> std::string {
    std::error_code error;
    if (value.empty()) return "is empty; use the name of a file";
    if (std::filesystem::exists(value, error)) return {};
    if (value.starts_with('{') || value.starts_with("[{"))
      return fmt::format("is '{}'; write the JSON into a file and give its name", one_line(value));
    if (value.find("::=") != value.npos)
      return fmt::format("is '{}'; write the grammar into a file and give its name", one_line(value));
    const std::vector<std::string> parts = CLI::detail::split(value, ',');
    const auto is_there = [&](const std::string& part) { return std::filesystem::exists(part, error); };
    if (parts.size() > 1 && std::ranges::all_of(parts, is_there))
      return fmt::format("is '{}'; files are not separated by commas, repeat the option", one_line(value));
    return {};
  };
  return {check, "FILE", kFile};
}
CLI::Validator folder_name() {
  const auto check = [](std::string& value) -> std::string {
    std::error_code error;
    if (value.empty()) return "is empty; use the name of a folder";
    if (!value.ends_with(".gguf") || std::filesystem::exists(value, error)) return {};
    return fmt::format("is '{}', but becomes a folder; did you mean '{}'?", one_line(value),
                       one_line(value.substr(0, value.size() - 5)));
  };
  return {check, "FOLDER", kFolder};
}
CLI::Validator not_empty() { return refuses_empty("", "", "a value, or remove the option"); }

ValueNotes notes_of(const CLI::Option& option) {
  ValueNotes n;
  if (const auto* v = find(option, kNumber)) n.range = v->get_description();
  if (const auto* v = find(option, kWords))
    n.words = CLI::detail::split(v->get_description(), '|'), n.only_words = true;
  if (const auto* v = find(option, kSuggested)) n.words = CLI::detail::split(v->get_description(), '|');
  n.file = find(option, kFile) || std::erase(n.words, "FILE") > 0;
  n.folder = find(option, kFolder);
  return n;
}

std::string violation(const CLI::Option& option, std::string value) {
  for (const char* name : {kNumber, kWords})
    if (const auto* v = find(option, name))
      if (std::string text = (*v)(value); !text.empty()) return text;
  return {};
}

bool is_help(const CLI::Option& option) { return option.check_lname("help") || option.check_lname("help-all"); }

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

nlohmann::ordered_json manifest(const CLI::App& app) {
  nlohmann::ordered_json all{{"name", app.get_name()}, {"summary", app.get_description()}};
  for (const CLI::Option* o : app.get_options()) {
    if (is_help(*o)) continue;
    nlohmann::ordered_json j{{"name", o->get_positional() ? o->get_name(true) : o->get_name()},
                             {"positional", o->get_positional()},
                             {"required", o->get_required()},
                             {"takes_value", !is_flag(*o)},
                             {"help", o->get_description()},
                             {"group", group_of(*o)}};
    if (!o->get_snames().empty()) j["letter"] = "-" + o->get_snames()[0];
    if (is_advanced(*o)) j["advanced"] = true;
    if (o->get_items_expected_max() > 1) j["repeatable"] = true;
    if (!o->get_default_str().empty()) j["default"] = o->get_default_str();
    const ValueNotes notes = notes_of(*o);
    if (!notes.range.empty()) j["range"] = notes.range;
    if (!notes.words.empty()) j["values"] = notes.words, j["other_values"] = !notes.only_words;
    if (notes.file) j["file"] = true;
    if (notes.folder) j["folder"] = true;
    all["options"].push_back(std::move(j));
  }
  for (const CLI::App* sub : app.get_subcommands({})) all["commands"].push_back(manifest(*sub));
  return all;
}

std::string help_text(const CLI::App* app, std::string name, CLI::AppFormatMode mode) {
  const bool all = mode == CLI::AppFormatMode::All, has_commands = !app->get_subcommands({}).empty();
  const size_t columns = help_columns(), width = columns < 60 ? 8 : kTermWidth;
  std::vector<std::string> groups(std::begin(kGroups), std::end(kGroups));
  std::map<std::string, std::array<std::string, 2>> options;  // of each group the common ones, then the others
  std::string usage = "Usage: " + name, arguments;
  int hidden = 0;
  for (const CLI::Option* o : app->get_options()) {
    if (is_help(*o)) continue;
    if (o->get_positional()) {
      std::string word = o->get_name(true);  // "model" is shown as MODEL
      for (char& c : word) c = char(std::toupper(c));
      arguments += entry(word, meaning_of(*o), 14, columns);
      if (o->get_expected_max() > 1) word += "...";
      usage += o->get_required() ? " " + word : " [" + word + "]";
      continue;
    }
    const std::string group = group_of(*o);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    if (is_advanced(*o) && !all)
      ++hidden;
    else
      options[group][is_advanced(*o)] += entry(names_of(*o), meaning_of(*o), width, columns);
  }
  std::string out = wrapped_lines(app->get_description(), columns) + "\n" +
                    wrapped_lines(usage + (app->get_require_subcommand_min() > 0 ? " COMMAND" : " [OPTIONS]"), columns);
  if (!arguments.empty()) out += "\n" + arguments;
  if (has_commands) out += "\nCommands:\n" + commands_below(*app, "", columns, all);
  for (const std::string& group : groups)
    if (options.contains(group)) out += fmt::format("\n{}:\n{}", group, fmt::join(options[group], ""));
  out += "\n" + entry("-h, --help", "Show this help", width, columns);
  if (hidden > 0) out += fmt::format("\n{} more option{}: {} --help-all\n", hidden, hidden == 1 ? "" : "s", name);
  if (!app->get_footer().empty()) out += "\n" + wrapped_lines(app->get_footer(), columns);
  return out;
}

}  // namespace toy::cli

#include "cli/help.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "toy/models/spec.h"

namespace toy::cli {
namespace {

constexpr const char *kRange = "range", *kWords = "words", *kSuggested = "suggested", *kFile = "file",
                     *kFolder = "folder";
constexpr std::string_view kAdvanced = " (advanced)";  // ends the group of an option that only --help-all shows
// Headings in the order of the help; others follow.
constexpr const char* kGroups[] = {"Model",    "Prompt",      "Data",   "Batch",   "Sampling",  "Optimizer",
                                   "Schedule", "Checkpoints", "Output", "Machine", "Debugging", "Options"};

std::string number_text(double v) { return fmt::format("{:.15g}", v); }

template <class Accepts>
CLI::Validator range(const std::string& text, const Accepts& accepts) {
  const auto check = [text, accepts](std::string& value) {
    return accepts(std::strtod(value.c_str(), nullptr)) ? "" : fmt::format("is {}; use {}", value, text);
  };
  return {check, text, kRange};
}

std::optional<CLI::Validator> note(const CLI::Option& option, const char* name) {
  try {
    return *const_cast<CLI::Option&>(option).get_validator(name);  // reads, but is not const in CLI11
  } catch (const CLI::OptionNotFound&) {
    return std::nullopt;
  }
}

std::vector<std::string> words_in(const std::string& text) {
  return text.empty() ? std::vector<std::string>{} : CLI::detail::split(text, '|');
}

CLI::Validator accepts_all(std::string description, const char* name) {
  return {[](std::string&) { return std::string(); }, std::move(description), name};
}

CLI::Validator refuses_empty(const char* description, const char* name, const char* use) {
  const auto check = [use](std::string& value) { return value.empty() ? fmt::format("is empty; use {}", use) : ""; };
  return {check, description, name};
}

size_t terminal_columns() {
  winsize w{};
  int columns = 0;
  if (const char* given = std::getenv("COLUMNS")) std::from_chars(given, given + std::strlen(given), columns);
  if (columns <= 0 && isatty(STDOUT_FILENO) == 1 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0) columns = w.ws_col;
  return columns <= 0 ? 80 : size_t(std::clamp(columns, 30, 1000));
}

// The words of a line, cut where the next would pass the last column.
std::string wrap_line(const std::string& line, size_t columns, const std::string& indent, const char* end) {
  std::string out;
  size_t used = 0;
  const bool command = line.starts_with(" ");
  for (size_t at = line.find_first_not_of(' '); at < line.size();) {
    size_t stop = at;  // of a command: as far as the next option
    do stop = std::min(line.find(' ', stop + 1), line.size());
    while (command && stop < line.size() && line.compare(stop, 3, " --") != 0);
    const std::string word = line.substr(at, stop - at);
    if (used == 0) {
      out += line.substr(0, line.find_first_not_of(' ')), used = out.size();
    } else if (used + 1 + word.size() + std::strlen(end) > columns) {
      out += end + ("\n" + indent), used = indent.size();
    } else {
      out += ' ', ++used;
    }
    out += word, used += word.size();
    at = stop + 1;
  }
  return out;
}

// A term and what it means; `width` is the column where meanings begin.
std::string entry(const std::string& term, const std::string& meaning, size_t width, size_t columns) {
  const std::string indent(width, ' ');
  std::string line = "  " + term;
  if (term.size() + 4 > width)
    line += "\n" + indent;
  else
    line.resize(width, ' ');
  const std::string text = wrap_line(meaning, columns - width, "", "");
  for (const char c : text) line += c == '\n' ? "\n" + indent : std::string(1, c);
  return line + "\n";
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
  if (const size_t at = text.find(" (default: "); at != text.npos && text.ends_with(")")) {
    more.push_back(text.substr(at + 2, text.size() - at - 3));
    text.erase(at);
  }
  if (!o.get_default_str().empty()) more.push_back("default: " + o.get_default_str());
  if (const std::string range = notes_of(o).range; range.find(" to ") != range.npos && range.size() <= kLongest)
    more.insert(more.begin(), range);
  if (!o.get_positional() && o.get_items_expected_max() > 1) more.push_back("repeatable");
  if (!o.get_positional() && o.get_required()) more.push_back("required");
  return text + (more.empty() ? "" : fmt::format(" ({})", fmt::join(more, "; ")));
}

// "MODEL" of the positional model.
std::string in_capitals(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
  return name;
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string line = fmt::format("Usage: {}", name);
  for (const CLI::Option* o : app.get_options())
    if (o->get_positional()) {
      const std::string word = in_capitals(o->get_name(true)) + (o->get_expected_max() > 1 ? "..." : "");
      line += o->get_required() ? " " + word : " [" + word + "]";
    }
  return line + (app.get_subcommands({}).empty() ? " [OPTIONS]" : " COMMAND");
}

std::vector<std::string> groups_of(const CLI::App& app) {
  std::vector<std::string> groups(std::begin(kGroups), std::end(kGroups));
  for (const CLI::Option* o : app.get_options())
    if (std::find(groups.begin(), groups.end(), group_of(*o)) == groups.end()) groups.push_back(group_of(*o));
  return groups;
}

void add_commands(std::string& out, const CLI::App& app, const std::string& path, size_t columns, bool all) {
  for (const CLI::App* sub : app.get_subcommands({})) {
    out += entry(path + sub->get_name(), sub->get_description(), all ? 26 : 16, columns);
    if (all) add_commands(out, *sub, path + sub->get_name() + " ", columns, all);
  }
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

CLI::Validator at_least(double least) {
  return range(number_text(least) + " or more", [=](double v) { return v >= least; });
}
CLI::Validator from_to(double least, double most) {
  return range(fmt::format("{} to {}", number_text(least), number_text(most)),
               [=](double v) { return v >= least && v <= most; });
}
CLI::Validator above(double bound) {
  return range("a number above " + number_text(bound), [=](double v) { return v > bound; });
}
CLI::Validator from_to_below(double least, double end) {
  return range(fmt::format("{} to below {}", number_text(least), number_text(end)),
               [=](double v) { return v >= least && v < end; });
}
CLI::Validator above_to(double begin, double most) {
  return range(fmt::format("above {} to {}", number_text(begin), number_text(most)),
               [=](double v) { return v > begin && v <= most; });
}

CLI::Validator from_to_or_0(double least, double most) {
  return range(fmt::format("{} to {}, or 0", number_text(least), number_text(most)),
               [=](double v) { return v == 0 || (v >= least && v <= most); });
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string list = fmt::format("{}", fmt::join(words, "|"));
  const auto check = [words = std::move(words)](std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    const std::string near = nearest(value, words);
    const std::vector<std::string> others(words.begin(), words.end() - 1);
    return fmt::format(
        "is '{}'; {}", value,
        near.empty() ? fmt::format("use {}{}{}", fmt::join(others, ", "), others.empty() ? "" : " or ", words.back())
                     : "did you mean '" + near + "'?");
  };
  return {check, list, kWords};
}

CLI::Validator suggested(std::vector<std::string> words, bool or_file) {
  return accepts_all(fmt::format("{}{}", fmt::join(words, "|"), or_file ? "|FILE" : ""), kSuggested);
}
CLI::Validator file_name() { return refuses_empty("FILE", kFile, "the name of a file"); }
CLI::Validator folder_name() { return refuses_empty("FOLDER", kFolder, "the name of a folder"); }
CLI::Validator not_empty() { return refuses_empty("", "", "a value, or remove the option"); }

ValueNotes notes_of(const CLI::Option& option) {
  ValueNotes n;
  if (const auto v = note(option, kRange)) n.range = v->get_description();
  if (const auto v = note(option, kWords)) n.words = words_in(v->get_description()), n.only_words = true;
  if (const auto v = note(option, kSuggested)) n.words = words_in(v->get_description());
  n.file = note(option, kFile).has_value() || std::erase(n.words, "FILE") > 0;
  n.folder = note(option, kFolder).has_value();
  return n;
}

std::string violation(const CLI::Option& option, std::string value) {
  for (const char* name : {kRange, kWords})
    if (const auto v = note(option, name))
      if (std::string text = (*v)(value); !text.empty()) return text;
  return {};
}

std::string group_of(const CLI::Option& option) {
  const std::string& group = option.get_group();
  return group.ends_with(kAdvanced) ? group.substr(0, group.size() - kAdvanced.size()) : group;
}

bool is_advanced(const CLI::Option& option) { return option.get_group().ends_with(kAdvanced); }

bool is_help(const CLI::Option& option) { return option.check_lname("help") || option.check_lname("help-all"); }

std::string placeholder(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};
  if (!option.get_option_text().empty()) return option.get_option_text();
  const ValueNotes notes = notes_of(option);
  if (notes.file) return "FILE";
  if (notes.folder) return "FOLDER";
  if (const std::string words = fmt::format("{}", fmt::join(notes.words, "|")); notes.only_words)
    return words.size() <= 20 ? words : "NAME";
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") ? "N" : type.starts_with("FLOAT") ? "X" : "TEXT";
}

std::string wrapped(const std::string& text, size_t columns) {
  std::vector<std::string> lines = CLI::detail::split(text, '\n');
  for (std::string& line : lines)
    line = line.starts_with(" ") ? wrap_line(line, columns, "      ", " \\") : wrap_line(line, columns, "", "");
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const bool all = mode == CLI::AppFormatMode::All;
  const size_t columns = terminal_columns(), width = columns < 60 ? 8 : 24;
  std::string out = wrapped(app->get_description(), columns) + "\n\n" + wrapped(usage(*app, name), columns) + "\n";
  std::string part;
  for (const CLI::Option* o : app->get_options())
    if (o->get_positional()) part += entry(in_capitals(o->get_name(true)), meaning_of(*o), 14, columns);
  if (!part.empty()) out += "\n" + part;
  if (!app->get_subcommands({}).empty()) {
    out += "\nCommands:\n";
    add_commands(out, *app, "", columns, all);
  }
  size_t hidden = 0;
  for (const std::string& group : groups_of(*app)) {
    part.clear();
    for (const bool advanced : {false, true})
      for (const CLI::Option* o : app->get_options()) {
        if (o->get_positional() || is_help(*o) || group_of(*o) != group || is_advanced(*o) != advanced) continue;
        if (advanced && !all)
          ++hidden;
        else
          part += entry(names_of(*o), meaning_of(*o), width, columns);
      }
    if (!part.empty()) out += fmt::format("\n{}:\n{}", group, part);
  }
  out += "\n" + entry("-h, --help", "Show this help", width, columns);
  if (hidden > 0) out += fmt::format("\n{} more option{}: {} --help-all\n", hidden, hidden == 1 ? "" : "s", name);
  if (!app->get_footer().empty()) out += "\n" + wrapped(app->get_footer(), columns) + "\n";
  return out;
}

}  // namespace toy::cli

// toy completion: scripts for shells, written from the manifest.
#include <fmt/format.h>

#include <functional>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/manifest.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// Calls `visit` with the path ("toy train") and the manifest of each command.
using Visit = std::function<void(const std::string& path, const ordered_json& command)>;
void each_command(const ordered_json& command, const std::string& path, const Visit& visit) {
  visit(path, command);
  for (const ordered_json& sub : command.value("commands", ordered_json::array()))
    each_command(sub, path + " " + sub.at("name").get<std::string>(), visit);
}

std::vector<ordered_json> options_of(const ordered_json& command, bool positional) {
  std::vector<ordered_json> list;
  for (const ordered_json& o : command.value("options", ordered_json::array()))
    if (o.at("positional") == positional) list.push_back(o);
  return list;
}

std::string text(const ordered_json& j, const char* key) { return j.value(key, ""); }
bool is(const ordered_json& j, const char* key) { return j.value(key, false); }

std::string values(const ordered_json& option) {
  std::string list;
  for (const std::string word : option.value("values", ordered_json::array())) list += (list.empty() ? "" : " ") + word;
  return list;
}

std::vector<std::string> subcommands(const ordered_json& command) {
  std::vector<std::string> names;
  for (const ordered_json& c : command.value("commands", ordered_json::array())) names.push_back(c.at("name"));
  if (command.at("name") == "toy") names.emplace_back("help");
  return names;
}

// In single quotes of a POSIX shell; fish escapes differently.
std::string in_quotes(const std::string& text, const char* quote = "'\\''") {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(quote) : std::string(1, c);
  return out + "'";
}

// Patterns of a shell's case, for the path of every command below the program.
std::string paths(const ordered_json& root) {
  std::string list;
  each_command(root, "toy", [&](const std::string& path, const ordered_json&) {
    if (path != "toy") list += (list.empty() ? "" : " | ") + ("\"" + path + "\"");
  });
  return list;
}

// What bash offers for a value.
std::string bash_words(const ordered_json& option) {
  std::string out;
  if (const std::string words = values(option); !words.empty())
    out += fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\")); ", in_quotes(words));
  if (is(option, "file")) out += "_toy_files -f; ";
  if (is(option, "folder")) out += "_toy_files -d; ";
  return out;
}

std::string bash_script(const ordered_json& root) {
  std::string by_option, by_command;
  each_command(root, "toy", [&](const std::string& path, const ordered_json& command) {
    std::string words = "--help --help-all";
    for (const ordered_json& o : options_of(command, false)) {
      words += " " + text(o, "name");
      if (!is(o, "takes_value")) continue;
      const std::string letter = text(o, "letter");
      by_option += fmt::format("    \"{} {}\"{}) {}return ;;\n", path, text(o, "name"),
                               letter.empty() ? "" : fmt::format(" | \"{} {}\"", path, letter), bash_words(o));
    }
    std::string rest;
    if (const auto names = subcommands(command); !names.empty())
      rest = fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\")); ",
                         in_quotes(fmt::format("{}", fmt::join(names, " "))));
    for (const ordered_json& o : options_of(command, true)) rest += bash_words(o);
    by_command +=
        fmt::format("    \"{}\") if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W {} -- \"$cur\")); else {}:; fi ;;\n",
                    path, in_quotes(words), rest);
  });
  return fmt::format(R"sh(# Completion of toy for bash. Load it with: source <(toy completion bash)
_toy_files() {{
  local word
  compopt -o filenames 2>/dev/null
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$1" -- "$cur")
}}
_toy() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} path=toy i
  COMPREPLY=()
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
    {}) path+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $prev" in
{}  esac
  case "$path" in
{}  esac
}}
complete -F _toy toy
)sh",
                     paths(root), by_option, by_command);
}

// The action of _arguments for a value.
std::string zsh_action(const ordered_json& option) {
  const std::string words = values(option);
  if (is(option, "file")) return words.empty() ? "_files" : "{compadd -- " + words + "; _files}";
  if (is(option, "folder")) return "_files -/";
  return words.empty() ? "( )" : "(" + words + ")";
}

std::string zsh_help(const ordered_json& option) {
  std::string out;
  for (const char c : text(option, "help"))
    out += (c == '[' || c == ']' || c == ':' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out;
}

std::string zsh_script(const ordered_json& root) {
  std::string by_command;
  each_command(root, "toy", [&](const std::string& path, const ordered_json& command) {
    std::string arguments = " '(- *)--help[Show this help]' \\\n      '(- *)--help-all[Show all options]'";
    for (const ordered_json& o : options_of(command, false)) {
      const std::string value = is(o, "takes_value") ? ":value:" + zsh_action(o) : "";
      for (const char* name : {"name", "letter"})
        if (o.contains(name))
          arguments +=
              " \\\n      " + in_quotes(fmt::format("*{}{}[{}]{}", text(o, name),
                                                    value.empty() || *name == 'l' ? "" : "=", zsh_help(o), value));
    }
    for (const ordered_json& o : options_of(command, true))
      arguments += " \\\n      " +
                   in_quotes(fmt::format("{}:{}:{}", is(o, "repeatable") ? "*" : "", text(o, "name"), zsh_action(o)));
    if (const auto names = subcommands(command); !names.empty())
      arguments += fmt::format(" \\\n      '1:command:({})'", fmt::join(names, " "));
    by_command += fmt::format("    \"{}\")\n      _arguments{} ;;\n", path, arguments);
  });
  return fmt::format(R"sh(#compdef toy
# Completion of toy for zsh. Load it with: source <(toy completion zsh), after compinit
_toy() {{
  local command=toy i depth=1
  for ((i = 2; i < CURRENT; ++i)); do
    case "$command $words[i]" in
    {}) command+=" $words[i]" depth=$i ;;
    esac
  done
  words=("${{(@)words[depth,-1]}}")
  ((CURRENT -= depth - 1))
  case "$command" in
{}  esac
}}
if [[ $funcstack[1] == _toy ]]; then _toy "$@"; else compdef _toy toy; fi
)sh",
                     paths(root), by_command);
}

std::string fish_script(const ordered_json& root) {
  const auto in_fish = [](const std::string& t) { return in_quotes(t, "\\'"); };
  std::string lines;
  each_command(root, "toy", [&](const std::string& path, const ordered_json& command) {
    const std::string at = fmt::format("complete -c toy -n 'test (__toy_command) = \"{}\"'", path);
    for (const ordered_json& sub : command.value("commands", ordered_json::array()))
      lines += fmt::format("{} -f -a {} -d {}\n", at, text(sub, "name"), in_fish(text(sub, "summary")));
    if (path == "toy") lines += fmt::format("{} -f -a help -d 'Show the help of a command'\n", at);
    lines += fmt::format("{} -f -s h -l help -d 'Show this help'\n", at);
    lines += fmt::format("{} -f -l help-all -d 'Show all options'\n", at);
    for (const bool positional : {false, true})
      for (const ordered_json& o : options_of(command, positional)) {
        std::string line = at;
        if (!positional) line += " -l " + text(o, "name").substr(2);
        if (!positional && o.contains("letter")) line += " -s " + text(o, "letter").substr(1);
        if (is(o, "takes_value") && !positional) line += " -r";
        line += is(o, "file") ? " -F" : " -f";
        if (const std::string words = values(o); !words.empty()) line += " -a " + in_fish(words);
        if (is(o, "folder")) line += " -a '(__fish_complete_directories)'";
        lines += line + " -d " + in_fish(text(o, "help")) + "\n";
      }
  });
  return fmt::format(R"sh(# Completion of toy for fish. Load it with: toy completion fish | source
function __toy_command
  set -l command toy
  for word in (commandline -opc)[2..]
    switch "$command $word"
      case {}
        set command "$command $word"
    end
  end
  echo $command
end
{})sh",
                     [&] {
                       std::string list = paths(root);
                       for (size_t at; (at = list.find(" | ")) != list.npos;) list.replace(at, 3, " ");
                       return list;
                     }(),
                     lines);
}

// `toy train --resume --out FOLDER` goes without a recipe, which has these options in the manifest.
void add_resuming(ordered_json& root) {
  for (ordered_json& command : root.at("commands")) {
    if (command.at("name") != "train") continue;
    for (const ordered_json& o : options_of(command.at("commands").at(0), false))
      if (text(o, "name") == "--resume" || text(o, "name") == "--out") command["options"].push_back(o);
  }
}

struct Completion {
  std::string shell;
  void add(CLI::App& app) {
    app.add_option("shell", shell, "Shell to write the script for: bash, zsh or fish")
        ->required()
        ->check(one_of({"bash", "zsh", "fish"}));
    app.footer(
        "Examples:\n"
        "  source <(toy completion bash)    # in ~/.bashrc\n"
        "  source <(toy completion zsh)     # in ~/.zshrc, after compinit\n"
        "  toy completion fish | source     # in ~/.config/fish/config.fish");
    app.callback([this, &app] {
      ordered_json root = manifest(*app.get_parent());
      add_resuming(root);
      fmt::print("{}", shell == "bash" ? bash_script(root) : shell == "zsh" ? zsh_script(root) : fish_script(root));
    });
  }
};

}  // namespace

void add_completion(CLI::App& app) {
  auto command = std::make_shared<Completion>();
  command->add(app);
  app.parse_complete_callback([command] {});
}

}  // namespace toy::cli

// toy completion: scripts for shells, which ask the program what may come next.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/scripts.h"
#include "toy/base/shell_word.h"

namespace toy::cli {
namespace {

// Each finds the program on the PATH, or takes the one that wrote the script.
constexpr const char* kBash = R"sh(# Completion of toy for bash. Load it with: source <(toy completion bash)
_toy() {
  local cur=${COMP_WORDS[COMP_CWORD]} word
  [[ $cur == = ]] && cur=
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    case $word in
    :files | :dirs)
      compopt -o filenames 2>/dev/null
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "-${word:1:1}" -- "$cur")
      ;;
    *) COMPREPLY+=("$word") ;;
    esac
  done < <("$(type -P -- "${COMP_WORDS[0]}" || echo @TOY@)" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _toy toy
)sh";

constexpr const char* kZsh = R"sh(#compdef toy
# Completion of toy for zsh. Load it with: source <(toy completion zsh), after compinit
_toy() {
  local line toy=@TOY@
  local -a found
  for line in ${(f)"$("${commands[$words[1]]:-$toy}" --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
    :files) compset -P '--*='; _files ;;
    :dirs) compset -P '--*='; _files -/ ;;
    *) found+=("${${line//:/\\:}/$'\t'/:}") ;;
    esac
  done
  (($#found)) && _describe toy found
}
if [[ $funcstack[1] == _toy ]]; then _toy "$@"; else compdef _toy toy; fi
)sh";

constexpr const char* kFish = R"sh(# Completion of toy for fish. Load it with: toy completion fish | source
function __toy_complete
  set -l toy (command -s toy; or echo @TOY@)
  set -l word (commandline -ct)
  set -l option (string match -r -- '^--[^=]*=' "$word")
  set -l value (string replace -r -- '^--[^=]*=' '' "$word")
  for line in ($toy --complete (commandline -opc)[2..] "$word" 2>/dev/null)
    switch $line
      case :files
        string replace -r -- ^ "$option" (__fish_complete_path "$value")
      case :dirs
        string replace -r -- ^ "$option" (__fish_complete_directories "$value" '')
      case '*'
        echo $line
    end
  end
end
complete -c toy -f -a '(__toy_complete)'
)sh";

// `toy train --resume --out FOLDER` goes without a recipe, which has these options.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  std::vector<const CLI::Option*> options = app.get_options({});
  if (app.get_name() == "train")
    for (const char* name : {"--resume", "--out"}) options.push_back(app.get_subcommands({})[0]->get_option(name));
  return options;
}

// The option of this name that takes a value.
const CLI::Option* waiting_for_value(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* o : options_of(app))
    if (name.starts_with("-") && o->check_name(name) && !is_flag(*o)) return o;
  return nullptr;
}

struct Completion : Command {
  std::string shell, program;
  void add(CLI::App& app) {
    add_option(app, "shell", shell, "Shell to write the script for: bash, zsh or fish", one_of({"bash", "zsh", "fish"}))
        ->required();
    add_option(app, "--program", program, "Program that completes where none is on the PATH (default: this one)",
               file_name());
    app.footer(
        "Examples:\n"
        "  source <(toy completion bash)    # in ~/.bashrc\n"
        "  source <(toy completion zsh)     # in ~/.zshrc, after compinit\n"
        "  toy completion fish | source     # in ~/.config/fish/config.fish");
  }
  void run() const {
    const char* script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
    fmt::print("{}", fill_in(script, {{"TOY", shell_quoted(program.empty() ? own_path() : program)}}));
  }
};

}  // namespace

void print_completions(const CLI::App& root, std::vector<std::string> words) {
  if (!words.empty() && words.back() == "=") words.emplace_back();  // bash cuts --option=value there
  std::erase(words, "=");
  if (!words.empty() && words[0] == "help") words.erase(words.begin());
  std::string now = words.empty() ? "" : words.back(), before;
  if (!words.empty()) words.pop_back();
  const CLI::App* app = &root;
  const CLI::Option* option = nullptr;  // whose value comes next
  for (const std::string& word : words) {
    const CLI::App* sub = option ? nullptr : find_command(*app, word);
    option = option ? nullptr : waiting_for_value(*app, word);
    if (sub) app = sub;
  }
  if (const size_t equals = now.find('='); !option && equals != now.npos)
    if ((option = waiting_for_value(*app, now.substr(0, equals)))) before = now.substr(0, equals + 1);
  const auto print = [&](const std::string& word, const std::string& meaning) {
    if (!(before + word).starts_with(now)) return;
    fmt::print("{}{}{}{}\n", before, word, meaning.empty() ? "" : "\t", meaning);
  };
  const auto print_values = [&](const CLI::Option& o) {
    const ValueNotes notes = notes_of(o);
    for (const std::string& word : notes.words) print(word, "");
    if (notes.file) fmt::print(":files\n");
    if (notes.folder) fmt::print(":dirs\n");
  };
  if (option) return print_values(*option);
  for (const CLI::Option* o : options_of(*app)) {
    if (o->get_positional() && !now.starts_with("-")) print_values(*o);
    if (!o->get_positional() && now.starts_with("-")) print("--" + o->get_lnames()[0], o->get_description());
  }
  for (const CLI::App* sub : app->get_subcommands({})) print(sub->get_name(), sub->get_description());
  if (app == &root) print("help", "Show the help of a command");
}

void add_completion(CLI::App& app) {
  add_subcommand<Completion>(app, "completion", "Print a completion script for bash, zsh or fish");
}

}  // namespace toy::cli

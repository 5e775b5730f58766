#include "cli/train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/files/model_file.h"
#include "cli/help.h"
#include "cli/synonyms.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/run_files.h"
#include "toy/base/shell_word.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/runs/run.h"
#include "toy/train/recipe.h"
#include "toy/train/recipes.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Whether a word is the option, with or without a value.
bool is(const std::string& word, const std::string& option) { return word == option || word.starts_with(option + "="); }

bool has(const Words& words, const std::string& option) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& w) { return is(w, option); });
}

// The value of the last time that the option is given; else `otherwise`.
std::string value_of(const Words& words, const std::string& option, std::string otherwise) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] != option && is(words[i], option))
      otherwise = words[i].substr(option.size() + 1);
    else if (words[i] == option && i + 1 < words.size())
      otherwise = words[i + 1];
  return otherwise;
}

std::vector<GivenOption> read_options(const std::string& path) {
  std::error_code error;
  if (const std::string inside = (fs::path(path) / "config.json").string(); fs::exists(inside, error))
    fail("{}: a folder; did you mean {}?", path, inside);
  const std::string text = read_text_file(path);
  const bool is_object = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == text.find('{');
  check(is_object || !(path.ends_with(".yaml") || path.ends_with(".yml") || path.ends_with(".toml")),
        "{}: options are read from JSON; write one object with all of them, such as {{\"corpus\": \"book.txt\", "
        "\"steps\": 500, \"lr\": 1e-3}}",
        path);
  return given_options(text, path);
}

// Words of a command line. Defaults give none.
Words words_of(const CLI::Option& option, const GivenOption& given, const std::string& path) {
  const std::string name = "--" + given.name, &key = given.name;
  check(given.values.size() == 1 || option.get_items_expected_max() > 1, "{}: '{}' is a list; give one value", path,
        key);
  Words words;
  for (const std::string& text : given.values) {
    check(!is_flag(option) || text == "true" || text == "false", "{}: '{}' is {}; use true or false", path, key, text);
    check(text.find('\0') == std::string::npos, "{}: '{}' holds a NUL character; remove it", path, key);
    if (text == option.get_default_str() || (is_flag(option) && text == "false")) continue;
    const std::string wrong = violation(option, text);  // the parser will not see it where the command line goes first
    check(wrong.empty(), "{}: '{}' {}", path, key, wrong);
    // Joined, so that a text that begins with a dash is no option; the parser takes the word after an empty "--name=".
    if (is_flag(option) || text.empty())
      words.push_back(name);
    else
      words.push_back(name + "=" + text);
    if (text.empty()) words.push_back(text);
  }
  return words;
}

// Another recipe than `app` that has all these options, or "".
std::string other_recipe_of(const CLI::App& app, const std::vector<GivenOption>& options) {
  const auto has = [](const CLI::App* r, const GivenOption& o) { return r->get_option_no_throw("--" + o.name); };
  for (const CLI::App* recipe : app.get_parent()->get_subcommands({}))
    if (recipe != &app && std::ranges::all_of(options, [&](const auto& o) { return has(recipe, o); }))
      return recipe->get_name();
  return {};
}

// The recipe that has all these options: each has some that no other has.
std::string recipe_of(const CLI::App& train, const std::vector<GivenOption>& options, const std::string& file) {
  const auto recipes = train.get_subcommands({});
  const auto has = [](const CLI::App* r, const GivenOption& o) { return r->get_option_no_throw("--" + o.name); };
  for (const CLI::App* recipe : recipes)
    if (std::ranges::all_of(options, [&](const auto& o) { return has(recipe, o); })) return recipe->get_name();
  std::string unknown;
  for (const GivenOption& o : options)
    if (std::ranges::none_of(recipes, [&](const CLI::App* r) { return has(r, o); }))
      unknown += (unknown.empty() ? "" : ", ") + o.name;
  fail("{}: no recipe has all of these options{}; give the recipe and the options of the run", file,
       unknown.empty() ? "" : ", and none has " + one_line(unknown));
}

// "--out out/a, or --out out/b": of the runs that have more steps to make, or "".
std::string unfinished(const std::vector<std::string>& runs) {
  constexpr int kShown = 5;
  std::string all;
  int found = 0;
  for (const std::string& run : runs) {
    std::error_code error;
    if (!fs::exists(fs::path(run) / runs::kConfigFile, error)) continue;
    const std::string file = (fs::path(run) / runs::kEventsFile).string();
    try {
      if (runs::summarize_file(file, run, false).status != "stopped") continue;
    } catch (const Error&) {
      continue;  // its log cannot be read
    }
    if (++found <= kShown) all += fmt::format("{}--out {}", all.empty() ? "" : " or ", shell_quoted(run));
  }
  return found > kShown ? all + " (toy runs list shows all)" : all;
}

void require_files(const std::vector<GivenOption>& options, const Words& words, const std::string& file) {
  for (const std::string key : {"corpus", "data", "val", "init", "donor", "model", "size", "tokenizer"}) {
    const auto given = std::ranges::find(options, key, &GivenOption::name);
    if (given == options.end() || has(words, "--" + key)) continue;
    for (const std::string& name : given->values) {
      std::error_code error;
      const bool is_model = key == "init" || key == "donor" || key == "model";
      const bool is_word = (key == "size" || key == "tokenizer") && !fs::path(name).has_extension();
      check(name == "-" || is_word || fs::exists(name, error) ||
                (is_model && (!finder().run(name).empty() || !finder().listed(name).empty())),
            "{}: '{}' of --{} does not exist. Paths are relative to the folder where the run was started: resume it "
            "there, or give --{} too",
            file, name, key, key);
    }
  }
}

}  // namespace

void add_config_option(CLI::App& app) {
  begin_group(app, "Machine");
  app.add_option("--config", "File of options, such as {\"steps\": 500}; the command line overrides it")
      ->check(file_name());
}

Words with_config(const CLI::App& root, Words words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const CLI::App* sub = find_command(*app, word);
    if (!sub) break;
    app = sub;
  }
  const std::string path = value_of(words, "--config", "");
  if (!app->get_option_no_throw("--config") || path.empty()) return words;
  std::vector<std::string> known;
  for (const CLI::Option* o : app->get_options())
    for (const std::string& name : o->get_lnames())
      if (!is_help(*o) && name != "config") known.push_back(name);
  const Words given = words;
  const std::vector<GivenOption> options = read_options(path);
  std::error_code error;
  const bool is_run = app->get_parent() && app->get_parent()->get_name() == "train" &&
                      fs::exists(fs::path(path).parent_path() / runs::kEventsFile, error);
  for (const GivenOption& option_given : options) {
    const std::string& key = option_given.name;
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      check(!key.starts_with("help") && key != "config", "{}: '{}' belongs on the command line", path, key);
      const std::string ours = our_option(*app, "--" + key), folder = fs::path(path).parent_path().string();
      if (const std::string other = is_run ? other_recipe_of(*app, options) : ""; !other.empty())
        fail(
            "{} is of `toy train {}`, which has '{}', and `toy train {}` has not; toy train --resume --out {} resumes "
            "it",
            path, other, key, app->get_name(), shell_quoted(folder.empty() ? "." : folder));
      const std::string reason = needless_option(*app, "--" + key);
      const std::string near = ours.starts_with("--") ? ours.substr(2) : nearest(key, known);
      fail("{}: unknown key '{}'; {}", path, key,
           !reason.empty() ? reason
           : near.empty()  ? "the keys are the options in --help-all"
                           : "did you mean '" + near + "'?");
    }
    const CLI::Option& option = *app->get_option("--" + key);
    const Words more = words_of(option, option_given, path);
    const bool overridden = std::any_of(given.begin(), given.end(), [&](const std::string& word) {
      return word.starts_with("-") && option.check_name(word.substr(0, word.find('=')));
    });
    if (!overridden) words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

// The folder of a run: that of a checkpoint or of all of its checkpoints, or itself. "" of another path.
std::string run_of(fs::path path) {
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const fs::path list = path.filename() == runs::kCheckpointsFolder ? path : path.parent_path();
  const fs::path above = list.has_parent_path() ? list.parent_path() : fs::path(".");
  std::error_code error;
  if (list.filename() == runs::kCheckpointsFolder && fs::exists(above / runs::kConfigFile, error))
    return above.string();
  return fs::exists(path / runs::kConfigFile, error) ? path.string() : "";
}

Words with_resumed_options(const CLI::App& root, Words words) {
  const auto resume = std::find_if(words.rbegin(), words.rend(), [](const auto& w) { return is(w, "--resume"); });
  if (words.empty() || words[0] != "train" || resume == words.rend() || *resume == "--resume=false") return words;
  for (const char* other : {"--config", "--help", "--help-all", "-h"})
    if (has(words, other)) return words;
  const bool named = words.size() > 1 && !words[1].starts_with("-");
  if (const std::string run = resume.base() != words.end() ? run_of(*resume.base()) : ""; !run.empty())
    fail("--resume takes no value; the run to resume is --out: --resume --out {}", shell_quoted(run));
  const bool has_data = has(words, "--corpus") || has(words, "--data");
  if (named && has_data) return words;
  const CLI::App& train = *find_command(root, "train");
  const auto is_recipe = [&](const std::string& word) { return find_command(train, word) != nullptr; };
  if (!named && std::any_of(words.begin(), words.end(), is_recipe)) return words;  // the parser says where it belongs
  const CLI::Option& option = *train.get_subcommands({})[0]->get_option("--out");
  const std::string out = value_of(
      words, "--out", newest_run().empty() ? fs::path(option.get_default_str()).parent_path().string() : newest_run());
  const std::string file = (fs::path(out) / "config.json").string(), run = run_of(out);
  std::error_code error;
  check(run.empty() || fs::equivalent(run, out, error) || error,
        "--out has checkpoints of {0}, the newest of which is resumed with --resume --out {0}", shell_quoted(run));
  if (!fs::exists(file, error)) {
    const std::vector<std::string> runs = runs::find_runs(".");
    check(named || fs::exists(out, error) || !has(words, "--out"), "resume: there is no folder '{}'{}", out,
          runs.empty() ? "" : fmt::format("; the runs here: {}", fmt::join(runs, ", ")));
    const std::string choices = has(words, "--out") ? "" : unfinished(runs);
    check(choices.empty(), "resume: which run? add {}", choices);
    check(named, "resume: '{}' has no config.json with the options of a run; give the recipe and its options", out);
    return words;  // the parser knows what is missing
  }
  const std::vector<GivenOption> options = read_options(file);
  if (!named) words.insert(words.begin() + 1, recipe_of(train, options, file));
  const auto is_data = [](const GivenOption& o) { return o.name == "corpus" || o.name == "data"; };
  check(
      has_data || std::ranges::any_of(options, is_data),
      "{}: it has no 'corpus' or 'data', so it is not of a run; give the options of the run, --corpus or --data among "
      "them",
      file);
  require_files(options, words, file);
  if (!has(words, "--out")) words.push_back("--out=" + out);
  words.push_back("--config=" + file);
  return words;
}

std::string how_to_resume(const CLI::App& recipe, const std::string& out) {
  bool exact = true;
  std::string line = "toy train " + recipe.get_name();
  for (const CLI::Option* o : recipe.get_options([](const CLI::Option* option) { return option->count() > 0; }))
    for (const std::string& value : o->reduced_results()) {
      exact = exact && is_utf8(value);
      if (o->get_name() == "--resume" || o->get_name() == "--out") continue;
      // CLI11 takes the word after `--name=` for an empty value.
      line += fmt::format(" {}{}{}", o->get_name(), value.empty() ? " " : "=", shell_quoted(value));
    }
  return fmt::format("{} --resume --out {}", exact ? "toy train" : line, shell_quoted(out));
}

}  // namespace toy::cli

#include "cli/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/files/model_file.h"
#include "cli/help.h"
#include "cli/scripts.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/train/recipe.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
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

// An object of options, each given once.
ordered_json read_options(const std::string& path) {
  std::set<std::string> keys;
  const auto once = [&](const std::string& key) {
    check(keys.insert(key).second, "{}: '{}' is given twice; keep one of them", path, key);
  };
  const auto options = read_json<ordered_json>(path, read_text_file(path), once);
  check(options.is_object(), "{}: not a JSON object of options; use e.g. {{\"steps\": 500}}", path);
  return options;
}

// The value as words of a command line. null and defaults give none.
Words words_of(const CLI::Option& option, const std::string& key, const ordered_json& value, const std::string& path) {
  if (value.is_null()) return {};
  const std::string name = "--" + key;
  if (is_flag(option)) {
    check(value.is_boolean(), "{}: '{}' is {}; use true or false", path, key, json_text(value));
    return value.get<bool>() ? Words{name} : Words{};
  }
  const bool takes_list = option.get_items_expected_max() > 1;
  Words words;
  for (const ordered_json& v : value.is_array() && takes_list ? value : ordered_json::array({value})) {
    check(v.is_string() || v.is_number(), "{}: '{}' is {}; use a number or a string{}", path, key, json_text(v),
          takes_list ? ", or a list of them" : "");
    const std::string text = v.is_string() ? v.get<std::string>() : json_text(v);
    check(text.find('\0') == std::string::npos, "{}: '{}' holds a NUL character; remove it", path, key);
    if (text == option.get_default_str()) continue;
    const std::string wrong = violation(option, text);  // the parser will not see it where the command line goes first
    check(wrong.empty(), "{} {}", option.get_name(), wrong);
    // Joined, so that a text that begins with a dash is no option; the parser takes the word after an empty "--name=".
    if (text.empty())
      words.insert(words.end(), {name, text});
    else
      words.push_back(name + "=" + text);
  }
  return words;
}

// The recipe that has all these options: each has some that no other has.
std::string recipe_of(const CLI::App& train, const ordered_json& options, const std::string& file) {
  for (const CLI::App* recipe : train.get_subcommands({}))
    if (std::all_of(options.items().begin(), options.items().end(),
                    [&](const auto& o) { return recipe->get_option_no_throw("--" + o.key()) != nullptr; }))
      return recipe->get_name();
  std::string unknown;
  for (const auto& [key, value] : options.items()) {
    const auto all = train.get_subcommands({});
    const std::string name = "--" + key;
    if (std::none_of(all.begin(), all.end(), [&](const CLI::App* r) { return r->get_option_no_throw(name); }))
      unknown += (unknown.empty() ? "" : ", ") + key;
  }
  fail("{}: no recipe has all of these options{}; give the recipe and the options of the run", file,
       unknown.empty() ? "" : ", and none has " + one_line(unknown));
}

void require_files(const ordered_json& options, const Words& words, const std::string& file) {
  for (const std::string key : {"corpus", "data", "val", "init", "model", "size"}) {
    if (has(words, "--" + key)) continue;
    const ordered_json value = options.value(key, ordered_json());
    for (const ordered_json& path : value.is_array() ? value : ordered_json::array({value})) {
      const std::string name = path.is_string() ? path.get<std::string>() : "-";
      std::error_code error;
      check(name == "-" || (key == "size" && !name.ends_with(".json")) || fs::exists(name, error) ||
                ((key == "init" || key == "model") && !listed_model(name).empty()),
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
  const ordered_json options = read_options(path);
  for (const auto& [key, value] : options.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      check(!key.starts_with("help") && key != "config", "{}: '{}' belongs on the command line", path, key);
      const std::string near = nearest(key, known);
      fail("{}: unknown key '{}'; {}", path, key,
           near.empty() ? "the keys are the options in --help-all" : "did you mean '" + near + "'?");
    }
    const CLI::Option& option = *app->get_option("--" + key);
    const Words more = words_of(option, key, value, path);
    const bool overridden = std::any_of(given.begin(), given.end(), [&](const std::string& word) {
      return word.starts_with("-") && option.check_name(word.substr(0, word.find('=')));
    });
    if (!overridden) words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

Words with_resumed_options(const CLI::App& root, Words words) {
  const auto resume = std::find_if(words.rbegin(), words.rend(), [](const auto& w) { return is(w, "--resume"); });
  if (words.empty() || words[0] != "train" || resume == words.rend() || *resume == "--resume=false") return words;
  for (const char* other : {"--config", "--help", "--help-all", "-h"})
    if (has(words, other)) return words;
  const bool named = words.size() > 1 && !words[1].starts_with("-");
  const bool has_data = has(words, "--corpus") || has(words, "--data");
  if (named && has_data) return words;
  const CLI::App& train = *find_command(root, "train");
  const auto is_recipe = [&](const std::string& word) { return find_command(train, word) != nullptr; };
  if (!named && std::any_of(words.begin(), words.end(), is_recipe)) return words;  // the parser says where it belongs
  const CLI::Option& option = *train.get_subcommands({})[0]->get_option("--out");
  const std::string out = value_of(words, "--out", newest_run().empty() ? option.get_default_str() : newest_run());
  const std::string file = (fs::path(out) / "config.json").string();
  std::error_code error;
  if (!fs::exists(file, error)) {
    check(named, "resume: '{}' has no config.json with the options of a run; give the recipe and its options", out);
    return words;  // the parser knows what is missing
  }
  const ordered_json options = read_options(file);
  if (!named) words.insert(words.begin() + 1, recipe_of(train, options, file));
  check(
      options.contains("corpus") || options.contains("data") || has_data,
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

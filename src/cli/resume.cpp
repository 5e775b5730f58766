#include "cli/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Arguments = std::vector<std::string>;

bool has(const Arguments& words, const std::string& option) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& w) { return w == option || w.starts_with(option + "="); });
}

// Whether --resume is set: `--resume=false` is no wish to resume, and of several the last counts.
bool is_resuming(const Arguments& words) {
  bool on = false;
  for (const std::string& w : words) {
    if (w != "--resume" && !w.starts_with("--resume=")) continue;
    try {
      on = w == "--resume" || CLI::detail::to_flag_value(w.substr(w.find('=') + 1)) > 0;
    } catch (const std::exception&) {  // the parser says what is wrong
      return false;
    }
  }
  return on;
}

// Of the last time that the option is given; else `otherwise`.
std::string value_of(const Arguments& words, const std::string& option, std::string otherwise) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) otherwise = words[i + 1];
    if (words[i].starts_with(option + "=")) otherwise = words[i].substr(option.size() + 1);
  }
  return otherwise;
}

// The recipe that has all these options: each has some that no other has.
std::string recipe_of(const CLI::App& train, const ordered_json& options, const std::string& file) {
  for (const CLI::App* recipe : train.get_subcommands({}))
    if (std::all_of(options.items().begin(), options.items().end(),
                    [&](const auto& o) { return recipe->get_option_no_throw("--" + o.key()) != nullptr; }))
      return recipe->get_name();
  fail("{}: no recipe has all of these options; give the recipe and the options of the run", file);
}

void require_files(const ordered_json& options, const Arguments& words, const std::string& file) {
  for (const std::string key : {"corpus", "val", "init", "size"}) {
    const auto it = options.find(key);
    if (it == options.end() || has(words, "--" + key)) continue;
    const ordered_json list = it->is_array() ? *it : ordered_json::array({*it});
    for (const ordered_json& path : list) {
      if (!path.is_string() || path == "-") continue;
      const std::string name = path.get<std::string>();
      if (key == "size" && !name.ends_with(".json")) continue;
      std::error_code error;
      check(fs::exists(name, error),
            "{}: '{}' of --{} does not exist. Paths are relative to the folder where the run was started: resume it "
            "there, or give --{} too",
            file, name, key, key);
    }
  }
}

}  // namespace

Arguments with_resumed_options(const CLI::App& root, Arguments words) {
  if (words.empty() || words[0] != "train" || !is_resuming(words)) return words;
  for (const char* other : {"--config", "--help", "--help-all", "-h"})
    if (has(words, other)) return words;
  const bool named = words.size() > 1 && !words[1].starts_with("-");
  if (named && has(words, "--corpus")) return words;
  const CLI::App& train = *root.get_subcommand("train");
  for (const CLI::App* recipe : train.get_subcommands({}))  // in the wrong place: the parser says so
    if (!named && std::find(words.begin(), words.end(), recipe->get_name()) != words.end()) return words;
  const std::string out =
                        value_of(words, "--out", train.get_subcommands({})[0]->get_option("--out")->get_default_str()),
                    file = (fs::path(out) / "config.json").string();
  std::error_code error;
  if (!fs::exists(file, error)) {
    check(named, "resume: '{}' has no config.json with the options of a run; give the recipe and its options", out);
    return words;  // the parser knows what is missing
  }
  const auto options = read_json<ordered_json>(file, read_text_file(file));
  check(options.is_object(), "{}: not a JSON object of options", file);
  if (!named) words.insert(words.begin() + 1, recipe_of(train, options, file));
  check(options.contains("corpus") || has(words, "--corpus"),
        "{}: it has no 'corpus', so it is not of a run; give the options of the run, --corpus among them", file);
  require_files(options, words, file);
  if (!has(words, "--out")) words.push_back("--out=" + out);
  words.push_back("--config=" + file);
  return words;
}

std::string how_to_resume(const CLI::App& recipe, const std::string& out) {
  const std::string end = " --resume --out " + shell_quoted(out);
  const auto options = recipe.get_options([](const CLI::Option* o) { return o->count() > 0; });
  const bool exact = std::all_of(options.begin(), options.end(), [](const CLI::Option* o) {
    const std::vector<std::string> values = o->reduced_results();
    return std::all_of(values.begin(), values.end(), [](const std::string& v) { return is_utf8(v); });
  });
  if (exact) return "toy train" + end;
  std::string line = "toy train " + recipe.get_name();
  for (const CLI::Option* o : options) {
    if (o->get_name() == "--resume" || o->get_name() == "--out") continue;
    if (o->get_items_expected_max() == 0) {  // a flag
      line += " " + flag_name(*o, o->reduced_results()[0] == "true");
      continue;
    }
    // CLI11 takes the word after `--name=` for an empty value.
    for (const std::string& value : o->reduced_results())
      line += fmt::format(" {}{}{}", o->get_name(), value.empty() ? " " : "=", shell_quoted(value));
  }
  return line + end;
}

}  // namespace toy::cli

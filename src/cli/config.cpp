#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/parse_errors.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/data/text_files.h"
#include "toy/models/spec.h"

namespace toy::cli {
namespace {

// What follows the last `--config` (or `--config=`) among the words; nullptr: it is not there, or nothing follows.
const char* config_path(const std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--config";
  for (size_t i = words.size(); i-- > 0;) {
    if (words[i] == kOption && i + 1 < words.size()) return words[i + 1].c_str();
    if (words[i].starts_with(kOption) && words[i][kOption.size()] == '=') return words[i].c_str() + kOption.size() + 1;
  }
  return nullptr;
}

// The command that the words call: "train from-scratch".
const CLI::App* called(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const auto subs = app->get_subcommands({});
    const auto it = std::find_if(subs.begin(), subs.end(), [&](const CLI::App* s) { return s->get_name() == word; });
    if (it == subs.end()) break;
    app = *it;
  }
  return app;
}

bool is_among(const CLI::Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word.starts_with("-") && option.check_name(word.substr(0, word.find('=')));
  });
}

// The value as words of a command line. null and defaults give none: the config.json of a run has the options of every
// optimizer, and only its own may be given.
std::vector<std::string> words_of(const CLI::Option& option, const std::string& key, const nlohmann::json& value,
                                  const std::string& path) {
  if (value.is_null()) return {};
  const std::string name = "--" + key;
  if (option.get_items_expected_max() == 0) {
    check(value.is_boolean(), "{}: '{}' is {}; use true or false", path, key, json_text(value));
    const std::vector<std::string>& negated = option.get_fnames();  // "no-nesterov"
    const bool is_negated = std::find(negated.begin(), negated.end(), key) != negated.end();
    if (!value.get<bool>() && negated.empty()) return {};
    return {flag_name(option, value.get<bool>() != is_negated)};
  }
  const bool several = value.is_array() && option.get_items_expected_max() > 1;
  std::vector<std::string> words;
  for (const nlohmann::json& v : several ? value : nlohmann::json::array({value})) {
    check(v.is_string() || v.is_number(), "{}: '{}' is {}; use a number or a string{}", path, key, json_text(v),
          option.get_items_expected_max() > 1 ? ", or a list of them" : "");
    const std::string text = v.is_string() ? v.get<std::string>() : json_text(v);
    check(text.find('\0') == std::string::npos, "{}: '{}' holds a NUL character; remove it", path, key);
    if (text == option.get_default_str()) continue;
    check_value(option, text);  // also where the command line goes first, and the parser will not see it
    // Joined, so that a text that begins with a dash is no option; the parser takes the word after an empty "--name=".
    if (text.empty())
      words.insert(words.end(), {name, text});
    else
      words.push_back(name + "=" + text);
  }
  return words;
}

nlohmann::json read_object(const std::string& path) {
  std::set<std::string> keys;
  const auto once = [&](const std::string& key) {
    check(keys.insert(key).second, "{}: '{}' is given twice; keep one of them", path, key);
  };
  const auto json = read_json<nlohmann::json>(path, read_text_file(path), once);
  check(json.is_object(), "{}: not a JSON object of options; use e.g. {{\"steps\": 500}}", path);
  return json;
}

}  // namespace

void add_config_option(CLI::App& app) {
  begin_group(app, "Options");
  app.add_option("--config", "JSON object of options, such as {\"steps\": 500}; the command line overrides it")
      ->check(file_name());
}

std::vector<std::string> with_config(const CLI::App& root, std::vector<std::string> words) {
  const CLI::App* app = called(root, words);
  const char* path_or_none = config_path(words);
  if (!path_or_none || !app->get_option_no_throw("--config")) return words;
  const std::string path = path_or_none;
  std::vector<std::string> known;
  for (const CLI::Option* o : app->get_options())
    for (const std::string& name : o->get_lnames())
      if (!is_help(*o) && name != "config") known.push_back(name);
  const size_t given = words.size();
  const nlohmann::json object = read_object(path);
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      check(!key.starts_with("help") && key != "config", "{}: '{}' belongs on the command line", path, key);
      const std::string near = nearest(key, known);
      fail("{}: unknown key '{}'; {}", path, key,
           near.empty() ? "the keys are the options in --help-all" : "did you mean '" + near + "'?");
    }
    const CLI::Option& option = *app->get_option("--" + key);
    const std::vector<std::string> more = words_of(option, key, value, path);
    if (!is_among(option, {words.begin(), words.begin() + int64_t(given)}))
      words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

}  // namespace toy::cli

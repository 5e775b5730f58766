#include "cli/run/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "cli/stray_words.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/data/text_files.h"
#include "toy/decode/encoder.h"

namespace toy::cli {
namespace {

// The last line break of a file belongs to the file, not to its text.
void drop_line_break(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

constexpr float kMostFactor = 1e6f;  // of an adapter; as in requests of toy serve

// A line of a file: {"prompt": "..."}, {"prompt_ids": [1, 2]}, maybe with "lora": [1, 0], or any other text.
Prompt parse_line(const std::string& where, const std::string& line) {
  if (!line.starts_with('{')) return {.where = where, .text = line, .ids = {}};
  constexpr const char* kForms = R"(use {"prompt": "text"} or {"prompt_ids": [1, 2]})";
  std::set<std::string> keys;
  auto j = read_json<nlohmann::json>(where, line, [&](const std::string& key) {
    check(keys.insert(key).second, "{}: the object has the key '{}' twice; remove one", where, one_line(key));
  });
  std::vector<float> lora;
  if (const auto factors = j.find("lora"); factors != j.end()) {
    check(factors->is_array(), "{}: 'lora' is not an array; give a factor for each --lora", where);
    check(!factors->empty(), "{}: 'lora' is empty; give a factor for each --lora, or remove it", where);
    for (const auto& f : *factors)
      lora.push_back(json_number<float>(f, where + ": a factor of 'lora'", -kMostFactor, kMostFactor));
    j.erase(factors);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : j.items()) names.push_back(one_line(name));
  check(j.size() == 1, "{}: the object has {}; {}{}", where,
        names.empty() ? "no keys" : fmt::format("the keys {}", fmt::join(names, ", ")), kForms,
        j.contains("answer") ? "; toy eval generate asks questions with an answer" : "");
  const std::string key = j.begin().key();
  const nlohmann::json& value = *j.begin();
  if (key == "prompt") {
    check(value.is_string(), "{}: 'prompt' is not a string; {}", where, kForms);
    return {.where = where, .text = value.get<std::string>(), .ids = {}, .lora = lora};
  }
  check(key == "prompt_ids", "{}: unknown key '{}'; {}{}", where, key, kForms,
        key == "messages" ? "; toy serve answers conversations" : "");
  check(value.is_array() && !value.empty(), "{}: 'prompt_ids' is not an array of ids; {}", where, kForms);
  for (const auto& id : value)
    check(id.is_number_integer() && id >= 0 && id <= INT32_MAX, "{}: 'prompt_ids' has {}; use token ids, 0 or more",
          where, json_text(id));
  return {.where = where, .text = {}, .ids = value.get<std::vector<int32_t>>(), .lora = lora};
}

}  // namespace

std::vector<int32_t> parse_ids(const std::string& option, const std::string& text) {
  std::string list = text;
  CLI::detail::trim(list);
  check(!list.empty(), "{} has no numbers; write them as 1,2,3", option);
  std::istringstream items(std::regex_replace(list, std::regex(" *, *| +"), ",") + ",");
  std::vector<int32_t> ids;
  for (std::string item; std::getline(items, item, ',');) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    check(error == std::errc() && end == item.data() + item.size() && id >= 0,
          "{} is '{}': item {} is '{}'; use whole numbers from 0 to {}, such as 1,2,3{}", option, text, ids.size() + 1,
          item, INT32_MAX,
          item.empty() || !std::isalpha(uint8_t(item[0])) ? "" : " (toy tokenizer encode makes them of a text)");
    ids.push_back(id);
  }
  return ids;
}

std::string read_text(const std::string& path, bool may_be_empty) {
  if (path == "-") return read_standard_input(may_be_empty);
  std::string text = read_text_file(path, may_be_empty);
  check(!is_binary(text), "{}: {}, or give it as standard input (-) to take its bytes", path, why_not_text(text));
  return text;
}

void require_lines(const std::string& name, const std::string& texts) {
  check(!name.ends_with(".csv") && !name.ends_with(".tsv"),
        "{}: it is a table; write each of its texts on a line of its own, in a file with another ending", name);
  const size_t at = texts.find_first_not_of(" \n\r\t");
  check(at == texts.npos || texts[at] != '[' || !parse_json<nlohmann::ordered_json>(texts).is_array(),
        "{}: it is a JSON list; write each of its texts or objects on a line of its own, such as with jq -c '.[]'",
        name);
}

nlohmann::ordered_json read_schema(const std::string& path) {
  const std::string text = read_text(path);
  check(text.starts_with('{') || text.find("::=") == text.npos, "{0}: it is a grammar; write --grammar {0}", path);
  return read_json<nlohmann::ordered_json>(path, text);
}

std::string read_grammar(const std::string& path) {
  std::string text = read_text(path);
  check(!text.starts_with('{'), "{0}: it is JSON, and a grammar is GBNF; did you mean --json-schema {0}?", path);
  return text;
}

void PromptOptions::add(CLI::App& app, bool several) {
  begin_group(app, "Prompt");
  app_ = &app;
  const std::string use = several ? "continue" : "read";
  std::vector<CLI::Option*>& all = options_;
  all = {
      app.add_option("text", text_, "Text to " + use + ", as --prompt; without one a pipe is read"),
      add_text_option(app, "-p,--prompt", text_, ("Text to " + use).c_str()),
      add_option(app, "--prompt-file", file_, "File with the text to " + use + "; - reads standard input", file_name()),
      add_option(app, "--prompt-ids", ids_, "Token ids to " + use + ", such as 1,2,3", not_empty())
          ->option_text("IDS")};
  if (several)
    all.insert(all.begin() + 3,
               add_option(app, "--prompts", lines_,
                          "File with one prompt per line, as text or JSON; - reads standard input", file_name()));
  for (CLI::Option* a : all)
    for (CLI::Option* b : all)
      if (a != b) a->excludes(b);
  app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
  add_parse_special(app, parse_special);
}

std::string PromptOptions::shown() const {
  constexpr size_t kMost = 400;  // bytes
  if (prompts_.size() != 1 || !prompts_[0].text) return {};
  const std::string& text = *prompts_[0].text;
  return text.size() <= kMost ? printable(text) : "..." + printable(text.substr(text.size() - kMost));
}

bool PromptOptions::any_lora(size_t adapters) const {
  bool any = false;
  for (const Prompt& p : prompts_) {
    check(p.lora.empty() || p.lora.size() == adapters, "{}: 'lora' has {} factors, but --lora is given {} times",
          p.where, p.lora.size(), adapters);
    any = any || !p.lora.empty();
  }
  return any;
}

void PromptOptions::note_missing_or_empty() const {
  constexpr size_t kShown = 5;
  const auto is_given = [](const CLI::Option* o) { return o->count() > 0; };
  if (!is_piped_ && std::ranges::none_of(options_, is_given))
    to_stderr("toy: no prompt was given, so the text begins with nothing; add --prompt TEXT\n");
  if (!several()) return;
  std::vector<std::string> lines;
  for (size_t i = 0; i < prompts_.size(); ++i)
    if (prompts_[i].text && prompts_[i].text->empty()) lines.push_back(std::to_string(i + 1));
  const size_t empty = lines.size();
  if (empty == 0) return;
  if (empty > kShown) lines.resize(kShown), lines.emplace_back("...");
  to_stderr(fmt::format("toy: {}: of {} prompts {} empty (line {})\n",
                        lines_ == "-" ? "standard input" : one_line(lines_), prompts_.size(),
                        counted(int64_t(empty), "is", "are"), fmt::join(lines, ", ")));
}

void PromptOptions::read() {
  const auto name_of = [](const std::string& path) { return path == "-" ? "standard input" : path; };
  prompts_.clear();
  if (several()) {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";  // some editors begin a file of UTF-8 with it
    std::string all = read_text(lines_);
    if (all.starts_with(kMark)) all.erase(0, kMark.size());
    require_lines(name_of(lines_), all);
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      drop_line_break(line);
      prompts_.push_back(parse_line(fmt::format("{}:{}", name_of(lines_), prompts_.size() + 1), line));
    }
    check(!prompts_.empty(), "{}: no prompts found; write one per line", name_of(lines_));
  } else if (!ids_.empty()) {
    prompts_.push_back({.where = "prompt", .text = {}, .ids = parse_ids("--prompt-ids", ids_)});
  } else if (!file_.empty()) {
    prompts_.push_back({.where = name_of(file_), .text = read_text(file_), .ids = {}});
    drop_line_break(*prompts_[0].text);
  } else {
    if (!is_second_model()) note_text(text_, "--prompt-file");
    prompts_.push_back({.where = "prompt", .text = text_, .ids = {}});
  }
}

bool PromptOptions::is_second_model() const { return options_[0]->count() > 0 && is_gguf_there(text_); }

void PromptOptions::read_piped() {
  const auto is_given = [](const CLI::Option* o) { return o->count() > 0; };
  const auto reads_it = [](const CLI::Option* o) { return o->count() > 0 && o->results()[0] == "-"; };
  if (std::ranges::any_of(options_, is_given) || std::ranges::any_of(app_->get_options(), reads_it) ||
      !has_piped_input())
    return;
  to_stderr("toy: the prompt is read from standard input, to its end\n");
  std::string text = read_standard_input(true);
  drop_line_break(text);
  is_piped_ = !text.empty();
  prompts_ = {{.where = is_piped_ ? "standard input" : "prompt", .text = std::move(text), .ids = {}}};
}

std::vector<std::vector<int32_t>> PromptOptions::tokens(const Model& model, const std::string& model_path) const {
  check(!is_second_model(), "'{}' is one model too many; one is taken, and --prompt before a text of that name",
        one_line(text_));
  std::vector<std::vector<int32_t>> result;
  const Tokenizer* t = model.tokenizer.get();
  const EncodeOptions o{.parse_special = parse_special};
  for (const Prompt& p : prompts_) {
    std::vector<int32_t> ids = p.ids;
    if (p.text) {
      if (!is_utf8(*p.text))
        to_stderr(fmt::format("toy: {} is not UTF-8; its other bytes are taken as they are\n", p.where));
      require_tokenizer(model, model_path, "give the prompt as --prompt-ids");
      try {
        ids = no_bos              ? t->encode(*p.text, o)
              : model.spec.causal ? encode_prompt(*t, *p.text, o)
                                  : encode_for_embedding(*t, *p.text, 0);  // as an encoder reads it
      } catch (const EncodeError& e) {
        fail("{}", e.at(fmt::format("byte {} of {}", e.offset(), p.where)));
      }
    }
    check(!ids.empty(),
          "{}: it is missing or empty; give a text, such as --prompt \"Once upon a time\", or --prompt-file - for "
          "standard input",
          p.where);
    for (const int32_t id : ids)
      check(id >= 0 && id < model.spec.vocab, "{}: token id {} is outside the vocabulary; use 0 to {}", p.where, id,
            model.spec.vocab - 1);
    result.push_back(std::move(ids));
  }
  note_missing_or_empty();
  if (!text_.empty()) note_unread_input("a prompt", "--prompt-file - reads it, and \"$(cat FILE) PROMPT\" is both");
  return result;
}

}  // namespace toy::cli

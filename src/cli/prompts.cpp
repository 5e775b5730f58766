#include "cli/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/help.h"
#include "cli/model_file.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/data/text_files.h"

namespace toy::cli {
namespace {

// Numbers with a comma, spaces, or both between any two.
std::vector<int32_t> parse_ids(const std::string& text) {
  check(text.find_first_not_of(' ') != std::string::npos, "--prompt-ids has no numbers; write them as 1,2,3");
  std::vector<int32_t> ids;
  const char *p = text.data(), *end = p + text.size();
  const auto skip_spaces = [&] {
    while (p < end && *p == ' ') ++p;
  };
  for (bool more = true; more;) {
    skip_spaces();
    const char* item_end = std::find_if(p, end, [](char c) { return c == ',' || c == ' '; });
    const std::string item(p, item_end);
    int32_t id = 0;
    const auto [next, error] = std::from_chars(p, item_end, id);
    check(error == std::errc() && next == item_end && id >= 0,
          "--prompt-ids is '{}': item {} is '{}'; use whole numbers from 0 to {}, such as 1,2,3", text, ids.size() + 1,
          item, INT32_MAX);
    ids.push_back(id);
    p = item_end;
    skip_spaces();
    more = p < end;
    if (more && *p == ',') ++p;
  }
  return ids;
}

// The last line break of a file belongs to the file, not to its text.
void drop_line_break(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

// {"prompt": "..."} or {"prompt_ids": [1, 2]}.
nlohmann::json parse_object(const std::string& where, const std::string& line) {
  constexpr const char* kForms = R"(use {"prompt": "text"} or {"prompt_ids": [1, 2]})";
  const auto j = read_json<nlohmann::json>(where, line);
  check(j.size() == 1, "{}: the object has {} keys; {}", where, j.size(), kForms);
  const std::string key = j.begin().key();
  check(key == "prompt" || key == "prompt_ids", "{}: unknown key '{}'; {}", where, key, kForms);
  const nlohmann::json& value = *j.begin();
  if (key == "prompt") {
    check(value.is_string(), "{}: 'prompt' is not a string; {}", where, kForms);
    return j;
  }
  check(value.is_array() && !value.empty(), "{}: 'prompt_ids' is not an array of ids; {}", where, kForms);
  for (const auto& id : value)
    check(id.is_number_integer() && id >= 0 && id <= INT32_MAX, "{}: 'prompt_ids' has {}; use token ids, 0 or more",
          where, json_text(id));
  return j;
}

}  // namespace

std::string read_text(const std::string& path, bool may_be_empty) {
  return path == "-" ? read_standard_input(may_be_empty) : read_text_file(path, may_be_empty);
}

void PromptOptions::add(CLI::App& app) {
  begin_group(app, "Prompt");
  text_option_ = add_text_option(app, "-p,--prompt", text_, "Text to continue");
  file_option_ = app.add_option("--prompt-file", file_, "File with the text to continue; - reads standard input")
                     ->check(file_name());
  many_ = app.add_option("--prompts", lines_, "File with one prompt per line, as text or JSON; - reads standard input")
              ->check(file_name());
  ids_option_ = app.add_option("--prompt-ids", ids_, "Token ids to continue, such as 1,2,3")->option_text("IDS");
  const std::vector<CLI::Option*> all{text_option_, ids_option_, file_option_, many_};
  for (CLI::Option* a : all)
    for (CLI::Option* b : all)
      if (a != b) a->excludes(b);
  app.add_flag("--no-bos", no_bos, "Omit the beginning-of-sequence token");
}

void PromptOptions::read() {
  prompts_.clear();
  if (many_->count()) return read_lines(lines_);
  Prompt p{.where = "prompt", .is_text = true, .text = text_, .ids = {}};
  if (ids_option_->count()) {
    p.is_text = false;
    p.ids = parse_ids(ids_);
  } else if (file_option_->count()) {
    p.where = file_ == "-" ? "standard input" : file_;
    p.text = read_text(file_);
    drop_line_break(p.text);
  }
  prompts_.push_back(std::move(p));
}

void PromptOptions::read_lines(const std::string& path) {
  const std::string all = read_text(path), name = path == "-" ? "standard input" : path;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // some editors begin a file of UTF-8 with it
  for (size_t begin = all.starts_with(kMark) ? kMark.size() : 0; begin < all.size();) {
    const size_t end = std::min(all.find('\n', begin), all.size());
    Prompt p{.where = fmt::format("{}:{}", name, prompts_.size() + 1), .text = all.substr(begin, end - begin)};
    drop_line_break(p.text);
    begin = end + 1;
    if (p.text.starts_with('{')) {
      const nlohmann::json j = parse_object(p.where, p.text);
      p.is_text = j.contains("prompt");
      if (p.is_text)
        p.text = j["prompt"].get<std::string>();
      else
        p.ids = j["prompt_ids"].get<std::vector<int32_t>>();
    }
    prompts_.push_back(std::move(p));
  }
  check(!prompts_.empty(), "{}: no prompts found; write one per line", name);
}

std::vector<std::vector<int32_t>> PromptOptions::tokens(const Model& model, const std::string& model_path) const {
  std::vector<std::vector<int32_t>> result;
  const Tokenizer* t = model.tokenizer.get();
  for (const Prompt& p : prompts_) {
    std::vector<int32_t> ids = p.ids;
    if (p.is_text) {
      require_tokenizer(model, model_path, "give the prompt as --prompt-ids");
      try {
        ids = no_bos ? t->encode(p.text) : encode_prompt(*t, p.text);
      } catch (const EncodeError& e) {
        fail("{}", e.at(fmt::format("byte {} of {}", e.offset(), p.where)));
      }
    }
    check(!ids.empty(), "{}: it is empty, and no beginning-of-sequence token is added; give some text", p.where);
    for (const int32_t id : ids)
      check(id >= 0 && id < model.spec.vocab, "{}: token id {} is outside the vocabulary; use 0 to {}", p.where, id,
            model.spec.vocab - 1);
    result.push_back(std::move(ids));
  }
  return result;
}

}  // namespace toy::cli

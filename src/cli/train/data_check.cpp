// toy data check: can all rows of files be used?
#include "cli/train/data_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/counted.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/chat/builtin.h"
#include "toy/train/data.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

struct BadRow {
  std::string file;
  int64_t line;
  std::string why;
};
struct EqualRow {
  std::string file;
  int64_t line;
  std::string first;  // "chats.jsonl:12"
};

// What the rows of all files have in common.
struct Found {
  std::map<std::string, int64_t> kinds;
  std::vector<int64_t> tokens;
  int64_t counted = 0, longest = 0, silent = 0;
  std::string longest_at;
  std::vector<BadRow> bad;
  std::vector<EqualRow> equal;
  int64_t rows() const { return int64_t(tokens.size() + bad.size()); }
  int64_t median() const { return tokens.empty() ? 0 : tokens[tokens.size() / 2]; }
};

// Tokens that a row is made of, and which of them count: rows that agree in both are equal.
uint64_t fingerprint(const ExampleRow& row) {
  std::string bytes;
  const auto add = [&](const Example& e) {
    for (const int32_t id : e.ids) bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
    for (const auto t : e.trained) bytes += t ? '1' : '0';
  };
  add(row.example);
  if (row.rejected) add(*row.rejected);
  return hash_name(bytes += row.good ? '+' : '-');
}

// `preferences`: as ExampleReading has it.
Found read_rows(const TextFiles& files, const ExampleMaker& maker, std::optional<Preferences> preferences) {
  Found found;
  std::unordered_map<uint64_t, std::string> first;
  for (const TextFile& file : files.files) {
    ExampleReading reading;
    reading.preferences = preferences;
    if (!preferences) reading.warn = [](const std::string& text) { to_stderr(text + "\n"); };  // once
    reading.bad = [&](int64_t line, const std::string& why) { found.bad.push_back({file.path, line, why}); };
    reading.take = [&](const ExampleRow& row, int64_t line) {
      const std::string place = fmt::format("{}:{}", file.path, line);
      const int64_t tokens = int64_t(std::max(row.example.ids.size(), row.rejected ? row.rejected->ids.size() : 0));
      ++found.kinds[std::string(name_of(row.kind))];
      found.tokens.push_back(tokens);
      found.silent += row.says_nothing;
      found.counted += row.example.counted() + (row.rejected ? row.rejected->counted() : 0);
      if (tokens > found.longest) found.longest = tokens, found.longest_at = place;
      if (const auto [it, is_new] = first.emplace(fingerprint(row), place); !is_new)
        found.equal.push_back({file.path, line, it->second});
      return true;
    };
    read_examples(file, maker, reading);
  }
  std::ranges::sort(found.tokens);
  return found;
}

// No training takes preferences and other rows: those that are fewer are bad.
Found check_rows(const TextFiles& files, const ExampleMaker& maker) {
  Found all = read_rows(files, maker, std::nullopt);
  const int64_t pairs = all.kinds["preference"], rated = all.kinds["rated"], good = int64_t(all.tokens.size());
  std::erase_if(all.kinds, [](const auto& kind) { return kind.second == 0; });
  if (pairs + rated == 0 || pairs + rated == good) return all;
  const bool learned = pairs + rated < good - pairs - rated;
  return read_rows(files, maker, learned ? Preferences::none : rated > 0 ? Preferences::rated : Preferences::pairs);
}

ordered_json to_json(const Found& f) {
  ordered_json bad = ordered_json::array(), equal = ordered_json::array();
  for (const BadRow& r : f.bad) bad.push_back({{"file", r.file}, {"line", r.line}, {"why", r.why}});
  for (const EqualRow& r : f.equal) equal.push_back({{"file", r.file}, {"line", r.line}, {"equals", r.first}});
  return {{"rows", f.rows()},
          {"kinds", f.kinds},
          {"tokens", {{"median", f.median()}, {"longest", f.longest}, {"longest_at", f.longest_at}}},
          {"counted", f.counted},
          {"empty_answers", f.silent},
          {"equal", equal},
          {"bad", bad}};
}

void print(const Found& f, bool has_model) {
  std::string kinds;
  for (const auto& [name, count] : f.kinds) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, name);
  fmt::print("{}{}\n", counted(f.rows(), "row"), kinds.empty() ? "" : ": " + kinds);
  if (!f.tokens.empty())
    fmt::print("{} of a row: {} (median) to {} ({}); {} count in the loss\n", has_model ? "tokens" : "bytes",
               f.median(), f.longest, f.longest_at, f.counted);
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, f.equal.size()); ++i)
    fmt::print("{}:{}: the same as {}\n", f.equal[i].file, f.equal[i].line, f.equal[i].first);
  if (f.equal.size() > kShown) fmt::print("{} more rows are the same as others\n", f.equal.size() - kShown);
  for (const BadRow& r : f.bad) fmt::print("{}:{}: {}\n", r.file, r.line, r.why);
}

}  // namespace

void DataCheck::add(CLI::App& app) {
  add_option(app, "file", paths, "Files of examples: JSON Lines, a JSON list, .csv or .tsv; - reads standard input",
             file_name())
      ->required();
  begin_group(app, "Model");
  add_option(app, "--model", model,
             "GGUF file with the tokenizer and the chat template (default: bytes and the template chatml)",
             file_name());
  add_listed(app, data, {"chat_template", "train_on", "map"});
  begin_group(app, "Output");
  app.add_flag("--json", json, "Print a JSON object");
  app.footer(
      "Reads every row as training would, and names all that cannot be used, with file, line and reason; then the exit "
      "code is 2. Rows of toy train contrastive and classify are not checked. See toy help data.md.\n\n"
      "Example:\n"
      "  toy data check chats.jsonl --model base.gguf");
}

void DataCheck::run() const {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  if (model.empty()) {
    chat = chat_template_named(data.chat_template.empty() ? "chatml" : data.chat_template);
    const ControlTokens control = control_tokens_of(&*chat);
    tokenizer = make_tokenizer("bytes", "", &control);
  } else {
    const gguf::File source = gguf::File::open(model_file(model));
    tokenizer = load_tokenizer(source);
    check(tokenizer != nullptr, "{}: the file has no tokenizer; give a model that has one", source.path());
    chat =
        data.chat_template.empty() ? load_chat_template(source) : chat_template_named(data.chat_template, *tokenizer);
  }
  const ExampleMaker maker(*tokenizer, chat ? &*chat : nullptr, data.train_on, {.renamed = parse_field_map(data.map)});
  const Found found = check_rows(list_text_files(paths), maker);
  check(found.rows() > 0, "{}: there is no row", paths.front());
  if (json)
    print_json(to_json(found));
  else
    print(found, !model.empty());
  check(found.bad.empty(), "{} of {} rows cannot be used; repair them, or train with --bad-rows skip", found.bad.size(),
        found.rows());
}

}  // namespace toy::cli

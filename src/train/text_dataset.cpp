#include "train/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "toy/base/checksum.h"
#include "toy/base/counted.h"
#include "toy/base/memory.h"
#include "toy/base/philox.h"
#include "toy/base/user_cache.h"
#include "toy/chat/builtin.h"
#include "toy/data/left_out.h"
#include "train/coming_tokens.h"
#include "train/doubts.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr uint64_t kReleaseAfter = uint64_t(64) << 20;
constexpr uint64_t kAround = uint64_t(128) << 10;  // what a place that is touched may bring along (fault-around)
constexpr const char* kNoCache = "none";

// Length and checksum: of one file the file's own, of several that of their lengths and checksums.
ordered_json files_config(const std::string& name, const std::vector<HashedFile>& files) {
  if (files.size() == 1)
    return {{"path", name}, {"bytes", files[0].file.bytes}, {"xxh64", checksum_text(files[0].xxh64)}};
  uint64_t bytes = 0;
  std::string all;
  for (const HashedFile& f : files) {
    bytes += f.file.bytes;
    all += fmt::format("{} {}\n", f.file.bytes, checksum_text(f.xxh64));
  }
  return {{"path", name}, {"files", files.size()}, {"bytes", bytes}, {"xxh64", checksum_text(xxh64(all))}};
}

std::string joined(const std::vector<std::string>& paths) { return fmt::format("{}", fmt::join(paths, ", ")); }

// Sequences of a row's own numbers become those of place `at` among rows of `tokens`.
void append_row(const Windows& row, int64_t at, int64_t tokens, Windows& out) {
  const auto add = [](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(row.inputs, out.inputs);
  add(row.targets, out.targets);
  add(row.position, out.position);
  out.trained.insert(out.trained.end(), row.trained.begin(), row.trained.end());
  const int32_t shift = int32_t(at * tokens);
  for (const Answer& a : row.answers) out.answers.push_back({a.first + at * tokens, a.places, a.chosen, a.id});
  for (const int32_t s : row.sequence) out.sequence.push_back(s < 0 ? s - shift : s + shift);
}

// Rows of several sources.
class MixedRows final : public Rows {
 public:
  MixedRows(const Mixture& mixture, const std::vector<DataSource>& sources, int64_t tokens)
      : mixture_(mixture), sources_(sources), tokens_(tokens) {}
  int64_t rows() const override {
    int64_t rows = 0;
    for (const DataSource& s : sources_) rows += s.rows->rows();
    return rows;
  }
  Windows windows(int64_t first, int64_t count) const override {
    Windows out;
    for (int64_t i = 0; i < count; ++i) {
      const Mixture::Row place = mixture_.at(first + i);
      append_row(sources_[place.source].rows->windows(place.row, 1), i, tokens_, out);
    }
    return out;
  }

 private:
  const Mixture& mixture_;
  const std::vector<DataSource>& sources_;
  int64_t tokens_;
};

}  // namespace

TextDataset::TextDataset(const DataOptions& options, const std::string& out, size_t memory, Teller& tell)
    : o_(options),
      memory_(memory),
      tell_(tell),
      documents_(parse_documents(options.documents)),
      packs_(o_.pack || !o_.examples.empty()) {
  check(o_.preferences == Preferences::none || !o_.examples.empty(),
        "--data is missing: give a JSON Lines file of preferences (toy help preferences.md)");
  check(!paths().empty(), "--corpus is missing: give a file or a folder of text, or examples with --data");
  check(o_.corpus.empty() || o_.examples.empty(), "data: it is given with --corpus; train on one of them");
  check(o_.weights.empty() || o_.weights.size() == paths().size(),
        "corpus-weight: {} weights for {} of --corpus; give one for each, in the same order", o_.weights.size(),
        paths().size());
  check(o_.examples.empty() || (documents_.kind == DocumentRule::none && !o_.binary),
        "data: each row of --data is a document; leave out --documents and --binary");
  parse_field_map(o_.map);
  check(!o_.examples.empty() || (o_.map.empty() && o_.chat_template.empty() && o_.bad_rows == DataOptions::fail &&
                                 o_.train_on == TrainOn::assistant),
        "{}: it says how rows of --data are read, and there are none; give a file with --data",
        !o_.map.empty()                    ? "map"
        : !o_.chat_template.empty()        ? "chat-template"
        : o_.bad_rows == DataOptions::skip ? "bad-rows"
                                           : "train-on");
  check(!o_.pack || !o_.examples.empty() || documents_.kind != DocumentRule::none,
        "pack: rows are filled with whole documents; say what a document is with --documents files, blank-lines or "
        "separator:TEXT");
  check_limits(o_);
  check(o_.tokenizer_bytes >= 1, "tokenizer-bytes is {}, expected at least 1", o_.tokenizer_bytes);
  if (!o_.weights.empty()) mixture_.emplace(o_.weights, 0);  // refuses impossible weights before a text is read
  list(out);
}

void TextDataset::list(const std::string& out) {
  constexpr const char* kStandardInput = "-";
  const auto inputs = std::count(paths().begin(), paths().end(), kStandardInput) +
                      std::count(o_.validation.begin(), o_.validation.end(), kStandardInput);
  check(inputs <= 1, "corpus: '-' is given {} times, and standard input can be read once; name files", inputs);
  std::vector<std::string> except;
  const std::string cache = o_.cache.empty() ? user_cache() : o_.cache == kNoCache ? "" : o_.cache;
  for (const std::string& folder : {out, cache}) {
    std::error_code error;  // of a home that others may not read: no text is there for this user
    const fs::path path = fs::weakly_canonical(folder, error);
    if (!folder.empty() && !error) except.push_back(path.string());
  }
  const BinaryFiles binary = !o_.examples.empty() ? BinaryFiles::refused
                             : o_.binary          ? BinaryFiles::taken
                                                  : BinaryFiles::offered;
  if (mixture_) {
    for (size_t i = 0; i < paths().size(); ++i) {
      DataSource& s = sources_.emplace_back();
      s.name = paths()[i];
      s.weight = o_.weights[i];
      s.files = list_text_files(std::span(&paths()[i], 1), except, binary, memory_);
    }
  } else {
    DataSource& s = sources_.emplace_back();
    s.name = joined(paths());
    s.files = list_text_files(paths(), except, binary, memory_);
  }
  if (!o_.validation.empty()) {
    DataSource& s = given_validation_.emplace();
    s.name = joined(o_.validation);
    s.files = list_text_files(o_.validation, except, binary, memory_);
  }
  say_left_out();
  const DataSource* validation = given_validation_ ? &*given_validation_ : nullptr;
  for (const std::string& text : doubts_of(o_, sources_, validation)) tell_.warn(text);
}

void TextDataset::say_left_out() const {
  const auto say = [&](const DataSource& s) {
    if (const std::string note = left_out_note(s.name, s.files); !note.empty()) tell_.note(note);
  };
  for (const DataSource& s : sources_) say(s);
  if (given_validation_) say(*given_validation_);
}

std::string TextDataset::cache_folder() const {
  if (o_.cache == kNoCache) return {};
  if (!o_.cache.empty()) {
    std::error_code error;
    fs::create_directories(o_.cache, error);
    check(!error, "data-cache: cannot make the folder '{}': {}", o_.cache, error.message());
    check(fs::is_directory(o_.cache), "data-cache: '{}' is not a folder", o_.cache);
    return o_.cache;
  }
  uint64_t bytes = given_validation_ ? given_validation_->files.bytes() : 0;
  for (const DataSource& s : sources_) bytes += s.files.bytes();
  if (bytes <= kCacheFrom) return {};
  const std::string folder = user_cache();
  if (!folder.empty() && make_writable(folder)) return folder;
  tell_.warn(fmt::format("data-cache: {}, so the tokens stay in memory; --data-cache DIR keeps them on disk",
                         folder.empty() ? "there is no home folder" : fmt::format("'{}' is not writable", folder)));
  return {};
}

void TextDataset::find_chat_template(const std::string& model_file, const Tokenizer& tokenizer,
                                     const ordered_json& earlier_time) {
  if (o_.examples.empty()) return;
  if (!o_.chat_template.empty())
    chat_ = chat_template_named(o_.chat_template, tokenizer);
  else if (!model_file.empty())
    chat_ = load_chat_template(gguf::File::open(model_file));
  // All rows of a run see one time, also after it is resumed on another day.
  if (chat_ && chat_->source().find("strftime_now") != std::string::npos)
    chat_time_ = earlier_time.is_number_integer() ? earlier_time.get<int64_t>() : std::time(nullptr);
}

void TextDataset::load(DataSource& source, const Tokenizer& tokenizer, double fraction) const {
  const ExampleMaker maker(tokenizer, chat_ ? &*chat_ : nullptr, o_.train_on,
                           {.renamed = parse_field_map(o_.map), .now = chat_time_, .questions = o_.questions});
  require_below(memory_, 2 * size_t(source.files.bytes()), fmt::format("keeping the tokens of {}", source.name),
                "fewer examples");
  constexpr int64_t kShown = 5;
  int64_t told = 0;
  ExampleSet set = load_examples(
      source.files.files, maker, fraction, o_.bad_rows == DataOptions::skip,
      [&](const std::string& text) {
        if (told++ < kShown) tell_.warn(text);
      },
      o_.preferences);
  if (set.skipped > kShown)
    tell_.warn(fmt::format("{}: {} skipped", source.name, counted(set.skipped, "row is", "rows are")));
  source.text = std::move(set.text);
  source.trained = std::move(set.trained);
  source.chosen = std::move(set.chosen);
}

void TextDataset::tokenize(DataSource& source, const Tokenizer& tokenizer, double fraction) const {
  if (!o_.examples.empty()) return load(source, tokenizer, fraction);
  TokenizeOptions options{
      .documents = documents_, .validation_fraction = fraction, .cache = cache_folder(), .memory = memory_};
  options.tell = [this](const std::string& text) { tell_.preparing(text); };
  options.warn = [this](const std::string& text) { tell_.warn(text); };
  source.text = tokenize_files(source.files.files, tokenizer, options);
  if (!source.text.path().empty())
    tell_.note(fmt::format("{}: tokens {} {}", source.name, source.text.was_cached() ? "from" : "kept in",
                           source.text.path()));
}

void TextDataset::tokenize(const Tokenizer& tokenizer, std::optional<int64_t> tokens, uint64_t seed, int64_t most) {
  if (mixture_) mixture_.emplace(o_.weights, seed);
  for (DataSource& s : sources_) {
    tell_.preparing(fmt::format("{}: {}", s.name, format_bytes(size_t(s.files.bytes()))));
    tokenize(s, tokenizer, given_validation_ ? 0 : o_.validation_fraction);
  }
  if (given_validation_) tokenize(*given_validation_, tokenizer, 1);
  constexpr int64_t kMultiple = 64;
  tokens_ = tokens ? *tokens
                   : std::min(most, std::max<int64_t>(1, (longest_example() + kMultiple - 1) / kMultiple) * kMultiple);
  for (size_t i = 0; i < sources_.size(); ++i) make_rows(sources_[i], i, seed);
  if (mixture_) mixed_ = std::make_unique<MixedRows>(*mixture_, sources_, tokens_);
  if (given_validation_) {
    add_validation(*given_validation_, 1, tokenizer, tokens_);
  } else {
    for (size_t i = 0; i < sources_.size(); ++i)
      add_validation(sources_[i], mixture_ ? mixture_->shares()[i] : 1, tokenizer, tokens_);
  }
  double shares = 0;
  for (const ValidationText& v : validation_) shares += v.share;
  for (ValidationText& v : validation_) v.share /= shares;
  each([this](const DataSource& s) {
    for (const HashedFile& f : s.text.files())
      if (!f.file.text) watched_.push_back(f);
  });
}

int64_t TextDataset::longest_example() const {
  int64_t longest = 0;
  for (const DataSource& s : sources_)
    for (const TokenizedText::Part* part : {&s.text.training(), &s.text.validation()}) {
      const auto end = uint64_t(part->begin + part->ids.size());
      for (size_t d = 0; d < part->begins.size(); ++d)
        longest =
            std::max(longest, int64_t((d + 1 < part->begins.size() ? part->begins[d + 1] : end) - part->begins[d]));
    }
  return longest;
}

void TextDataset::make_rows(DataSource& s, size_t number, uint64_t seed) {
  const uint64_t own = mixture_ ? seed ^ hash_name(fmt::format("source {}", number)) : seed;
  const TokenizedText::Part& part = s.text.training();
  try {
    constexpr size_t kPlanned = 48;  // bytes of a document while rows are planned
    if (packs_)
      require_below(memory_, size_t(part.documents) * kPlanned, fmt::format("packing {}", s.name), "no --pack");
    if (packs_)
      s.rows = std::make_unique<PackedRows>(s.text.ids(), part.begins, uint64_t(part.ids.size()), tokens_, own,
                                            s.trained, answers(s, 0, part.begins.size()));
    else
      s.rows = std::make_unique<WindowSampler>(part.ids, 1, tokens_, own);
  } catch (const Error& e) {
    if (!mixture_) throw;
    throw Error(e.code(), fmt::format("{}: {}", s.name, e.what()));
  }
}

// Of the documents [first, first + count).
PackedRows::Answers TextDataset::answers(const DataSource& source, size_t first, size_t count) const {
  if (source.chosen.empty()) return {};
  constexpr int64_t kEach = int64_t(1) << 40;  // more than any file has
  const bool given = given_validation_ && &source == &*given_validation_;
  const int64_t number = given ? int64_t(sources_.size()) : &source - sources_.data();
  return {std::span(source.chosen).subspan(first, count), o_.preferences == Preferences::pairs,
          number * kEach + int64_t(first)};
}

void TextDataset::add_validation(DataSource& source, double share, const Tokenizer& tokenizer, int64_t tokens) {
  const TokenizedText::Part& part = source.text.validation();
  if (share == 0 || o_.questions) return;  // questions are asked, see Rollouts::validate()
  if (part.ids.size() < 2) {
    if (mixture_ && o_.validation_fraction > 0)
      tell_.warn(
          fmt::format("{}: its validation part has fewer than 2 tokens, so validation leaves it out; give "
                      "--val, or a larger --val-fraction",
                      source.name));
    return;
  }
  ValidationText v{&source, source.name, share, part.ids, {}, part.ids.size() - 1, double(part.text_bytes)};
  if (packs_) {
    const uint64_t end = uint64_t(part.begin + part.ids.size());
    std::unique_ptr<PackedRows> rows;
    try {
      rows =
          std::make_unique<PackedRows>(source.text.ids(), part.begins, end, tokens, 0, source.trained,
                                       answers(source, size_t(source.text.training().documents), part.begins.size()));
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("validation: {}", e.what()));
    }
    v.tokens = rows->counted();
    v.bytes -= double(part.first_bytes);
    if (!source.trained.empty()) {  // of what counts; examples that lose their end count without it
      v.bytes = 0;
      rows->each_counted([&](int64_t i) { v.bytes += double(tokenizer.token_bytes(source.text.ids()[i]).size()); });
    }
    v.rows = std::move(rows);
  } else {
    v.bytes -= double(tokenizer.token_bytes(part.ids[0]).size());
    v.rows = std::make_unique<TextRows>(part.ids, tokens);
  }
  validation_.push_back(std::move(v));
}

ordered_json TextDataset::config() const {
  ordered_json j;
  if (!mixture_) {
    j["corpus"] = files_config(sources_[0].name, sources_[0].text.files());
  } else {
    for (const DataSource& s : sources_) {
      ordered_json& source = j["corpus"].emplace_back(files_config(s.name, s.text.files()));
      source["weight"] = s.weight;
    }
  }
  if (given_validation_) j["validation"] = files_config(given_validation_->name, given_validation_->text.files());
  if (documents_.kind != DocumentRule::none) j["documents"] = documents_.str();
  if (o_.pack) j["pack"] = true;
  if (!o_.examples.empty()) {
    j["train_on"] = name_in_list(o_.train_on);
    j["bad_rows"] = name_in_list(o_.bad_rows);
    if (!o_.map.empty()) j["map"] = o_.map;
    if (o_.preferences != Preferences::none)
      j["preferences"] = o_.preferences == Preferences::pairs ? "pairs" : "rated";
    if (chat_) j["chat_template"] = checksum_text(xxh64(chat_->source()));
    if (chat_time_) j["chat_time"] = int64_t(*chat_time_);
  }
  return j;
}

Windows TextDataset::windows(int64_t first, int64_t count) {
  Windows out = rows().windows(first, count);
  const auto places = out.position.empty() ? count : std::count(out.position.begin(), out.position.end(), 0);
  touched_ += uint64_t(count * tokens_) * 4 + uint64_t(places) * kAround;
  if (touched_ >= kReleaseAfter) {
    each([](const DataSource& s) { s.text.release(); });
    touched_ = 0;
  }
  return out;
}

int64_t TextDataset::training_tokens() const {
  int64_t tokens = 0;
  for (const DataSource& s : sources_) tokens += s.text.training().ids.size();
  return tokens;
}

int64_t TextDataset::validation_tokens() const {
  int64_t tokens = given_validation_ ? given_validation_->text.validation().ids.size() : 0;
  if (!given_validation_)
    for (const DataSource& s : sources_) tokens += s.text.validation().ids.size();
  return tokens;
}

Dataset::Start TextDataset::validation_start(int64_t number, int64_t most) const {
  constexpr int64_t kFirst = 8;  // tokens of a text
  Start start;
  if (validation_.empty()) return start;
  const DataSource& source = *validation_[0].source;
  const TokenizedText::Part& part = source.text.validation();
  const auto end = uint64_t(part.begin + part.ids.size());
  const size_t documents = source.trained.empty() ? 0 : part.begins.size();
  for (size_t k = 0; k < documents; ++k) {
    const size_t d = (size_t(number) + k) % documents;
    const auto begin = part.begins[d], behind = d + 1 < documents ? part.begins[d + 1] : end;
    const auto mask = source.trained.begin();
    const auto from = uint64_t(std::find(mask + int64_t(begin), mask + int64_t(behind), 1) - mask),
               to = uint64_t(std::find(mask + int64_t(from), mask + int64_t(behind), 0) - mask);
    const bool is_rejected = !source.chosen.empty() && !source.chosen[size_t(source.text.training().documents) + d];
    if (from < begin + 2 || from == behind || int64_t(from - begin) >= most || is_rejected) continue;
    source.text.ids().copy(int64_t(begin), int64_t(from - begin), start.ids);
    source.text.ids().copy(int64_t(from), int64_t(to - from), start.wanted);
    return start;
  }
  part.ids.copy(0, std::min({kFirst, most / 2, part.ids.size()}), start.ids);
  return start;
}

std::string TextDataset::name() const { return joined(paths()); }

void TextDataset::warn_of_epochs(int64_t rows) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const double share = mixture_ ? mixture_->shares()[i] : 1;
    const std::string doubt = doubt_of_epochs(sources_[i].name, share * double(rows), sources_[i].rows->rows());
    if (!doubt.empty()) tell_.warn(doubt);
  }
}

std::string TextDataset::change() {
  constexpr size_t kAtOnce = 64;
  for (size_t i = 0; i < std::min(kAtOnce, watched_.size()); ++i) {
    HashedFile& f = watched_[next_watched_++ % watched_.size()];
    try {
      const TextFile now = looked_at(f.file.path);
      if (is_untouched(f.file, now)) continue;
      if (now.bytes != f.file.bytes)
        return fmt::format("{} had {} bytes and has {}", f.file.path, f.file.bytes, now.bytes);
      if (hash_of(now) != f.xxh64) return fmt::format("{} has another text of the same length", f.file.path);
      f.file = now;
    } catch (const Error& e) {
      return e.what();
    }
  }
  return {};
}

void TextDataset::tell_sources(std::optional<int64_t> rows) const {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const DataSource& s = sources_[i];
    const double share = mixture_ ? mixture_->shares()[i] : 1;
    if (rows) {
      if (mixture_)
        tell_.note(fmt::format("{}: {:.1f}% of {} rows, {:.2f} epochs", s.name, 100 * share, *rows,
                               share * double(*rows) / double(s.rows->rows())));
      continue;
    }
    const TokenizedText::Part& part = s.text.training();
    if (mixture_ || s.text.files().size() > 1)
      tell_.note(fmt::format("{}: {}{}, {} training tokens, {} per epoch", s.name,
                             mixture_ ? fmt::format("{:.1f}% of the rows, ", 100 * share) : "",
                             counted(int64_t(s.text.files().size()), "file"), part.ids.size(),
                             counted(s.rows->rows(), "row")));
    if (!packs_) continue;
    const auto& p = dynamic_cast<const PackedRows&>(*s.rows);
    tell_.note(fmt::format(
        "{}: {} {} in {} packed rows, {:.1f}% full{}{}", s.name, part.documents,
        s.chosen.empty() ? "documents" : "answers", p.rows(), 100 * double(p.targets()) / double(p.rows() * tokens_),
        !p.cut() ? ""
        : s.chosen.empty()
            ? fmt::format("; {} are longer than a row of {} tokens and are cut", p.cut(), tokens_)
            : fmt::format("; {} lose their end, because a row has {} tokens; use more --tokens", p.cut(), tokens_),
        !p.passed_over()    ? ""
        : s.trained.empty() ? fmt::format("; {} of a single token are passed over", p.passed_over())
                            : fmt::format("; {} teach nothing then and are passed over", p.passed_over())));
    if (!s.trained.empty())
      tell_.note(fmt::format("{}: {} of {} targets count in the loss", s.name, p.counted(), p.targets()));
  }
}

}  // namespace toy

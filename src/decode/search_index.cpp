#include "toy/decode/search_index.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"

namespace toy {
namespace {

constexpr const char *kArchitecture = "search-index", *kVectors = "vectors";
constexpr const char *kTexts = "search.texts", *kFiles = "search.files", *kFileOf = "search.file_of",
                     *kLines = "search.lines";
constexpr const char *kModel = "search.model", *kModelChecksum = "search.model_xxh64",
                     *kQueryPrefix = "search.query_prefix", *kPooling = "search.pooling";
constexpr std::string_view kSpaces = " \t\r\n\f\v";

// A part of a text.
struct Piece {
  size_t begin = 0, end = 0;
  int64_t tokens = 0;
};

class Cutter {
 public:
  Cutter(std::string_view text, const Tokenizer& tokenizer, int64_t most)
      : text_(text), tokenizer_(tokenizer), most_(most) {}

  // Pieces that are as large as they may be, of paragraphs, then of lines, then of words.
  std::vector<Piece> pieces() {
    split(0, text_.size(), 0);
    flush();
    return std::move(pieces_);
  }

 private:
  // Where the piece that begins at `begin` ends at this level: at a blank line, a line break, a space.
  size_t end_of(size_t begin, size_t end, int level) const {
    if (level == 2) return std::min(text_.find_first_of(kSpaces, begin), end);
    size_t at = begin;
    while (true) {
      at = std::min(text_.find('\n', at), end);
      if (level == 1 || at == end) return at;
      const size_t next = std::min(text_.find('\n', at + 1), end);
      if (text_.substr(at, next - at).find_first_not_of(kSpaces) == std::string_view::npos) return at;
      at = next;
    }
  }
  void split(size_t begin, size_t end, int level) {
    constexpr int kWords = 2;
    while ((begin = text_.find_first_not_of(kSpaces, begin)) < end) {
      const size_t stop = end_of(begin, end, level);
      const Piece piece{begin, stop, int64_t(tokenizer_.encode(text_.substr(begin, stop - begin)).size())};
      if (piece.tokens > most_ && level < kWords) {
        flush();
        split(begin, stop, level + 1);
        flush();
      } else {
        add(piece);
      }
      begin = stop;
    }
  }
  void add(const Piece& piece) {
    if (open_.tokens + piece.tokens > most_) flush();
    if (open_.tokens == 0) open_.begin = piece.begin;
    open_.end = piece.end, open_.tokens += piece.tokens;
  }
  void flush() {
    if (open_.tokens > 0) pieces_.push_back(open_);
    open_ = {};
  }

  std::string_view text_;
  const Tokenizer& tokenizer_;
  int64_t most_;
  Piece open_;
  std::vector<Piece> pieces_;
};

// Letters of any script are bytes above 127.
bool says_something(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return std::isalnum(uint8_t(c)) || uint8_t(c) > 127; });
}

}  // namespace

std::vector<Passage> passages_of(std::string_view text, const std::string& file, const Tokenizer& tokenizer,
                                 int64_t most) {
  check(most >= 1, "passages of {} tokens; give at least 1", most);
  std::vector<Passage> passages;
  size_t seen = 0;
  int64_t line = 1;
  for (const Piece& p : Cutter(text, tokenizer, most).pieces()) {
    line += std::count(text.begin() + int64_t(seen), text.begin() + int64_t(p.begin), '\n');
    seen = p.begin;
    std::string_view own = text.substr(p.begin, p.end - p.begin);
    own = own.substr(0, own.find_last_not_of(kSpaces) + 1);
    if (says_something(own)) passages.push_back({file, line, std::string(own)});
  }
  return passages;
}

// Sums of their own for each of eight numbers, which a processor adds at once.
double inner_product(std::span<const float> a, std::span<const float> b) {
  constexpr size_t kSums = 8;
  check(a.size() == b.size(), "inner product of {} and {} numbers", a.size(), b.size());
  std::array<double, kSums> sums{};
  size_t i = 0;
  for (; i + kSums <= a.size(); i += kSums)
    for (size_t k = 0; k < kSums; ++k) sums[k] += double(a[i + k]) * double(b[i + k]);
  for (; i < a.size(); ++i) sums[0] += double(a[i]) * double(b[i]);
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

void write_search_index(const std::string& path, std::span<const Passage> passages,
                        std::span<const std::vector<float>> vectors, const SearchModel& model) {
  check(!passages.empty(), "search: there is no passage; give files with text");
  check(passages.size() == vectors.size(), "search: {} vectors for {} passages", vectors.size(), passages.size());
  const size_t width = vectors.front().size();
  for (const auto& v : vectors) check(v.size() == width, "search: vectors of {} and {} numbers", width, v.size());
  std::vector<std::string> texts, files;
  std::vector<int32_t> file_of, lines;
  for (const Passage& p : passages) {
    texts.push_back(p.text);
    if (files.empty() || files.back() != p.file) files.push_back(p.file);
    file_of.push_back(int32_t(files.size() - 1)), lines.push_back(int32_t(p.line));
  }
  gguf::Writer writer(kArchitecture);
  writer.set("general.type", std::string(kArchitecture));
  writer.set(kModel, model.path);
  writer.set(kModelChecksum, checksum_text(model.checksum));
  writer.set(kQueryPrefix, model.query_prefix);
  writer.set(kPooling, model.pooling);
  writer.set(kFiles, gguf::Array(std::move(files)));
  writer.set(kFileOf, gguf::Array(std::move(file_of)));
  writer.set(kLines, gguf::Array(std::move(lines)));
  writer.set(kTexts, gguf::Array(std::move(texts)));
  writer.add(kVectors, Shape({int64_t(vectors.size()), int64_t(width)}), DType::f32,
             [&](const gguf::Writer::Sink& sink) {
               for (const auto& v : vectors) sink(std::as_bytes(std::span(v)));
             });
  writer.finish(path);
}

bool is_search_index(const std::string& path) { return gguf::type_of_file(path) == kArchitecture; }

namespace {

// "it is a model, no index; make one with toy search build MODEL FOLDER --out INDEX"
[[noreturn]] void refuse_other(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error),
             is_model = is_folder ? fs::exists(fs::path(path) / "config.json", error) ||
                                        fs::exists(fs::path(path) / "model.gguf", error)
                                  : gguf::type_of_file(path) == "model";
  const std::string word = shell_quoted(path);
  fail("{}: it is {}no index; make one with toy search build {} {} --out INDEX", path,
       is_model    ? "a model, "
       : is_folder ? "a folder, "
                   : "",
       is_model ? word : "MODEL", is_folder && !is_model ? word : "FOLDER");
}

}  // namespace

SearchIndex SearchIndex::open(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse_other(path);
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> magic{};
  if (file.read(magic.data(), magic.size()) && std::string_view(magic.data(), magic.size()) != "GGUF")
    refuse_other(path);
  SearchIndex index(gguf::File::open(path));
  const gguf::File& f = index.file_;
  if (f.get_string("general.architecture", "") != kArchitecture) refuse_other(path);
  const gguf::TensorInfo& t = f.require(kVectors);
  check(t.dtype == DType::f32 && t.shape.rank() == 2 && t.shape[0] > 0, "{}: its vectors are not f32 [passages,width]",
        path);
  index.passages_ = t.shape[0], index.width_ = t.shape[1];
  index.vectors_ = reinterpret_cast<const float*>(t.data);
  const auto n = size_t(index.passages_);
  const auto &files = f.get_strings(kFiles), &texts = f.get_strings(kTexts);
  const auto &file_of = f.get_i32s(kFileOf), &lines = f.get_i32s(kLines);
  check(texts.size() == n && file_of.size() == n && lines.size() == n, "{}: it has {} vectors and {} passages", path, n,
        texts.size());
  for (const int32_t of : file_of)
    check(of >= 0 && size_t(of) < files.size(), "{}: a passage is of file {} of {}", path, of, files.size());
  index.model_.path = f.get_string(kModel);
  index.model_.query_prefix = f.get_string(kQueryPrefix, "");
  index.model_.pooling = f.get_string(kPooling, "");
  index.model_.checksum = std::strtoull(f.get_string(kModelChecksum).c_str(), nullptr, 16);
  return index;
}

Passage SearchIndex::passage(int64_t i) const {
  const auto at = size_t(i);
  return {file_.get_strings(kFiles)[size_t(file_.get_i32s(kFileOf)[at])], file_.get_i32s(kLines)[at],
          file_.get_strings(kTexts)[at]};
}

std::vector<SearchIndex::Hit> SearchIndex::nearest(std::span<const float> vector, int64_t most) const {
  check(int64_t(vector.size()) == width_, "{}: its vectors have {} numbers, this one has {}", file_.path(), width_,
        vector.size());
  std::vector<Hit> hits(static_cast<size_t>(passages_));
  for (int64_t i = 0; i < passages_; ++i) {
    const double score = inner_product(vector, {vectors_ + i * width_, size_t(width_)});
    check(std::isfinite(score), "{}: the vector of passage {} or of the query is not finite; make the index again",
          file_.path(), i);
    hits[size_t(i)] = {i, score};
  }
  const auto end = hits.begin() + std::clamp<int64_t>(most, 0, passages_);
  std::partial_sort(hits.begin(), end, hits.end(), [](const Hit& a, const Hit& b) {
    return a.score != b.score ? a.score > b.score : a.passage < b.passage;
  });
  hits.erase(end, hits.end());
  return hits;
}

}  // namespace toy

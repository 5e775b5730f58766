#include "text/wordpiece.h"

#include <algorithm>

#include "text/spm/spm.h"
#include "text/unicode.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr std::string_view kWordMark = "\u2581";
constexpr size_t kLongestWord = 100;  // characters
constexpr const char* kLowercaseKey = "tokenizer.ggml.normalizer.lowercase";
constexpr const char* kStripAccentsKey = "tokenizer.ggml.normalizer.strip_accents";

/// Chinese characters are words of their own. The ranges are those of tokenization.py, with the one that Hugging Face's
/// tokenizers begin elsewhere (0x2B920 for 0x2B820).
bool is_chinese(uint32_t c) {
  constexpr uint32_t kRanges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                                     {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(kRanges), std::end(kRanges), [c](const auto& r) { return r[0] <= c && c <= r[1]; });
}

bool is_control(uint32_t c) {
  const std::string_view category = category_of(c);
  return c != '\t' && c != '\n' && c != '\r' && category[0] == 'C' && category != "Cn";
}

bool is_bert_punctuation(uint32_t c) {
  const std::string_view category = category_of(c);
  return category[0] == 'P' || (c < 0x80 && category[0] == 'S');
}

/// Takes characters of a text, and gives words.
template <class TakeWord>
class WordBuilder {
 public:
  WordBuilder(const WordPieceVocabulary& v, TakeWord take) : v_(v), take_(std::move(take)) {}

  void add(uint32_t c) {
    if (c == 0 || c == 0xFFFD || is_control(c)) return;
    if (is_white_space(c)) return finish();
    if (is_chinese(c)) return add_alone(c);
    if (!v_.strip_accents) return add_folded(c);
    for (const char32_t part : decomposed(c)) {
      if (category_of(part) != "Mn") add_folded(part);
    }
  }
  void finish() {
    if (!word_.empty()) take_(word_);
    word_.clear();
  }

 private:
  void add_folded(uint32_t c) {
    if (is_bert_punctuation(c)) return add_alone(c);
    word_ += utf8_encode(v_.lowercase ? lower_case(c) : c);
  }
  void add_alone(uint32_t c) {
    finish();
    word_ = utf8_encode(c);
    finish();
  }

  const WordPieceVocabulary& v_;
  TakeWord take_;
  std::string word_;
};

}  // namespace

void mark_beginnings(Vocabulary& v) {
  const auto any = [&](std::string_view mark) {
    return std::any_of(v.tokens.begin(), v.tokens.end(), [&](const std::string& t) { return t.starts_with(mark); });
  };
  if (any(kWordMark) || !any("##")) return;
  for (int32_t id = 0; id < v.size(); ++id) {
    if (v.type(id) != TokenType::normal) continue;
    std::string& token = v.tokens[size_t(id)];
    token = token.starts_with("##") ? token.substr(2) : std::string(kWordMark) + token;
  }
}

WordPieceTokenizer::WordPieceTokenizer(WordPieceVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  const WordPieceVocabulary& v = vocabulary_;
  check_vocabulary(v);
  check(v.unknown.has_value(), "{}: tokenizer.ggml.unknown_token_id is not set", v.source);
  std::vector<PieceTrie::Entry> entries;
  for (int32_t id = 0; id < v.size(); ++id) {
    const std::string& token = v.tokens[size_t(id)];
    const bool normal = v.type(id) == TokenType::normal;
    texts_.push_back(normal ? with_spaces(token) : v.type(id) == TokenType::user_defined ? token : "");
    if (normal && !token.empty()) entries.push_back({token, id});
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  trie_ = std::make_unique<PieceTrie>(entries);
  find_literals(true);
}

std::string WordPieceTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text = VocabularyTokenizer::decode(ids);
  if (text.starts_with(' ')) text.erase(0, 1);
  return text;
}

// Where more text follows, what is before the last space is certain.
size_t WordPieceTokenizer::encode_text(std::string_view text, bool last, EncodePlace&,
                                       std::vector<int32_t>& ids) const {
  const size_t end = last ? text.size() : text.find_last_of(" \n") + 1;
  WordBuilder words(vocabulary_, [&](std::string_view word) { encode_word(word, ids); });
  for (std::string_view rest = text.substr(0, end); !rest.empty();) {
    const CodePoint c = first_code_point(rest);
    words.add(c.value);
    rest.remove_prefix(c.bytes);
  }
  words.finish();
  return end;
}

/// The longest piece, then the longest that goes on; the unknown token for the word if there is none somewhere.
void WordPieceTokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const auto is_first_byte = [](char c) { return (uint8_t(c) & 0xC0) != 0x80; };
  bool known = size_t(std::count_if(word.begin(), word.end(), is_first_byte)) <= kLongestWord;
  const std::string marked = std::string(kWordMark).append(word);
  for (size_t at = 0; known && at < marked.size();) {
    PieceTrie::Entry longest = {{}, PieceTrie::kNone};
    int32_t node = 0;
    for (size_t end = at; end < marked.size();) {
      node = trie_->child(node, marked[end++]);
      if (node == PieceTrie::kNone) break;
      if (const int32_t id = trie_->id(node); id != PieceTrie::kNone)
        longest = {std::string_view(marked).substr(at, end - at), id};
    }
    known = longest.id != PieceTrie::kNone;
    at += longest.text.size();
    ids.push_back(longest.id);
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(*vocabulary_.unknown);
}

uint64_t WordPieceTokenizer::fingerprint() const {
  const WordPieceVocabulary& v = vocabulary_;
  Fingerprint sum;
  sum.text(kind());
  for (const std::string& token : v.tokens) sum.text(token);
  sum.bytes(v.types.data(), v.types.size() * sizeof(int32_t));
  for (const std::optional<int32_t> id : {v.bos, v.eos, v.unknown}) sum.number(id.value_or(-1));
  for (const bool flag : {v.add_bos, v.add_eos, v.lowercase, v.strip_accents}) sum.number(flag);
  return sum.digest();
}

void WordPieceTokenizer::save(gguf::Writer& writer) const {
  writer.set("tokenizer.ggml.model", gguf::Value(std::string("bert")));
  save_vocabulary(vocabulary_, writer);
  writer.set(kLowercaseKey, gguf::Value(vocabulary_.lowercase));
  writer.set(kStripAccentsKey, gguf::Value(vocabulary_.strip_accents));
}

// llama.cpp knows a text's end as "sep", not as eos, and always adds it.
std::shared_ptr<const Tokenizer> load_wordpiece(const gguf::File& file) {
  constexpr int32_t kUnknown = 100, kBegin = 101, kSeparator = 102;  // of BERT; the defaults in llama-vocab.cpp
  WordPieceVocabulary v;
  const uint32_t separator = file.get_u32("tokenizer.ggml.seperator_token_id", kSeparator);
  read_vocabulary(file,
                  {.bos = kBegin, .eos = int32_t(separator), .unknown = kUnknown, .add_bos = true, .add_eos = true}, v);
  v.lowercase = file.get_bool(kLowercaseKey, true);
  v.strip_accents = file.get_bool(kStripAccentsKey, v.lowercase);
  mark_beginnings(v);
  return std::make_shared<const WordPieceTokenizer>(std::move(v));
}

}  // namespace toy

#include "text/bpe/bpe.h"

#include <algorithm>

#include "text/bpe/byte_level.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";

const PreTokenizer& require_rules(const BpeVocabulary& v) {
  const PreTokenizer* rules = find_pre_tokenizer(v.pre);
  check(rules != nullptr, "{}: {} '{}' is not supported (supported: {})", v.source, kPreKey, v.pre,
        pre_tokenizer_names());
  return *rules;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)),
      rules_(&require_rules(vocabulary_)),
      splitter_(*rules_),
      merges_(vocabulary_.merges.size()) {
  const TokenIds names = check_vocabulary(vocabulary_);
  texts_.resize(vocabulary_.tokens.size());
  symbols_ = TokenIds(vocabulary_.tokens.size());
  std::vector<bool> is_symbol(vocabulary_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) is_symbol[size_t(id)] = add_token(id);
  for (int byte = 0; byte < 256; ++byte) byte_symbols_[size_t(byte)] = symbol_of(std::string(1, char(byte)));
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) add_merge(rank, names, is_symbol);
  find_literals(true);
}

// Whether merges may make it.
bool BpeTokenizer::add_token(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  std::string& text = texts_[size_t(id)];
  switch (vocabulary_.type(id)) {
    case TokenType::unknown:
    case TokenType::control:
    case TokenType::unused:
      return false;
    case TokenType::byte:
      if (const auto byte = byte_of_name(token)) text = std::string(1, char(*byte));
      return false;
    case TokenType::user_defined:
      text = token;
      return false;
    case TokenType::normal:
      break;
  }
  if (const auto bytes = byte_level_text(token)) {
    text = *bytes;
    if (!text.empty()) symbols_.add(text, id);
    return !text.empty();
  }
  text = token;
  return false;
}

// As in Hugging Face's tokenizers, a merge takes two tokens and makes one. Where it makes one that texts do not give (a
// control token), the tokens of its bytes stand for it.
void BpeTokenizer::add_merge(size_t rank, const TokenIds& names, const std::vector<bool>& is_symbol) {
  const std::string_view merge = vocabulary_.merges[rank];
  const size_t space = std::min(merge.find(' ', 1), merge.size());
  const std::string_view left = merge.substr(0, space), right = merge.substr(std::min(space + 1, merge.size()));
  const auto symbol = [&](std::string_view name) {
    const int32_t* named = names.find(name);
    if (named && is_symbol[size_t(*named)]) return *named;
    const auto text = byte_level_text(name);
    check(text && !text->empty(), "{}: {}[{}] is \"{}\", not two byte-level tokens with a space between",
          vocabulary_.source, kMergesKey, rank, merge);
    const int32_t id = symbol_of(*text);
    check(id < vocab_size() || named, "{}: {}[{}], \"{}\", names \"{}\", which is no token", vocabulary_.source,
          kMergesKey, rank, merge, name);
    return id;
  };
  const int32_t a = symbol(left), b = symbol(right);
  merges_.add({a, b, int32_t(rank), symbol(std::string(left).append(right))});
}

int32_t BpeTokenizer::symbol_of(const std::string& text) {
  if (const int32_t* found = symbols_.find(text)) return *found;
  const int32_t symbol = vocab_size() + int32_t(more_texts_.size());
  more_texts_.push_back(std::make_unique<const std::string>(text));
  symbols_.add(*more_texts_.back(), symbol);
  return symbol;
}

uint64_t BpeTokenizer::fingerprint() const {
  const BpeVocabulary& v = vocabulary_;
  Fingerprint sum;
  sum.text(kind());
  for (const std::string& token : v.tokens) sum.text(token);
  sum.bytes(v.types.data(), v.types.size() * sizeof(int32_t));
  for (const std::string& merge : v.merges) sum.text(merge);
  sum.text(v.pre);
  for (const std::optional<int32_t> id : {v.bos, v.eos, v.unknown}) sum.number(id.value_or(-1));
  for (const bool flag : {v.add_bos, v.add_eos}) sum.number(flag);
  return sum.digest();
}

void BpeTokenizer::save(gguf::Writer& writer) const {
  writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
  writer.set(kPreKey, gguf::Value(vocabulary_.pre));
  writer.set(kMergesKey, gguf::Value(gguf::Array(vocabulary_.merges)));
  save_vocabulary(vocabulary_, writer);
}

const PreTokenizer* pre_tokenizer_of(const gguf::File& file) {
  return find_pre_tokenizer(file.get_string(kPreKey, "default"));
}

std::shared_ptr<const Tokenizer> load_bpe(const gguf::File& file) {
  BpeVocabulary v;
  v.pre = file.get_string(kPreKey, "default");
  const PreTokenizer* rules = find_pre_tokenizer(v.pre);
  read_vocabulary(file, {.add_bos = rules && (rules->flags & PreTokenizer::kAddsBos)}, v);
  v.merges = file.get_strings(kMergesKey);
  return std::make_shared<const BpeTokenizer>(std::move(v));
}

}  // namespace toy

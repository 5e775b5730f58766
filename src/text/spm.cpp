#include "text/spm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "text/utf8.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space

std::string with_spaces(std::string_view piece) {
  std::string out;
  while (true) {
    const size_t at = piece.find(kSpaceSymbol);
    out += piece.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += ' ';
    piece.remove_prefix(at + kSpaceSymbol.size());
  }
}

/// The byte that "<0x0A>" stands for.
std::optional<uint8_t> byte_of_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const digits = token.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  if (error != std::errc() || end != digits + 2) return std::nullopt;
  return byte;
}

/// Key of a special id, its value in a file that does not name it (llama-vocab.cpp), and where it goes.
struct SpecialId {
  const char* key;
  int32_t otherwise;
  std::optional<int32_t> SpmVocabulary::*member;
};
constexpr std::array<SpecialId, 3> kSpecialIds = {{
    {"tokenizer.ggml.bos_token_id", 1, &SpmVocabulary::bos},
    {"tokenizer.ggml.eos_token_id", 2, &SpmVocabulary::eos},
    {"tokenizer.ggml.unknown_token_id", 0, &SpmVocabulary::unknown},
}};

/// Types for a file without tokenizer.ggml.token_type, from names and special ids.
std::vector<int32_t> guess_types(const SpmVocabulary& v) {
  std::vector<int32_t> types;
  for (const std::string& token : v.tokens) {
    types.push_back(int32_t(byte_of_name(token) ? SpmType::byte : SpmType::normal));
  }
  const auto mark = [&](std::optional<int32_t> id, SpmType type) {
    if (id && size_t(*id) < types.size()) types[size_t(*id)] = int32_t(type);
  };
  mark(v.bos, SpmType::control);
  mark(v.eos, SpmType::control);
  mark(v.unknown, SpmType::unknown);
  return types;
}

}  // namespace

SpmTokenizer::SpmTokenizer(SpmVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  check_sizes();
  check_ids();
  byte_ids_.fill(-1);
  text_of_.resize(vocabulary_.tokens.size());
  ids_.reserve(vocabulary_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) add_token(id);
  has_all_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  for (std::vector<int32_t>& literals : literals_) {
    std::stable_sort(literals.begin(), literals.end(),
                     [&](int32_t a, int32_t b) { return text_of(a).size() > text_of(b).size(); });
  }
}

void SpmTokenizer::check_sizes() const {
  const SpmVocabulary& v = vocabulary_;
  const size_t n = v.tokens.size();
  check(n > 0, "{}: tokenizer.ggml.tokens is empty", v.source);
  check(n <= size_t(std::numeric_limits<int32_t>::max()), "{}: tokenizer.ggml.tokens has {} tokens, too many", v.source,
        n);
  check(v.scores.size() == n, "{}: tokenizer.ggml.scores has {} values for {} tokens", v.source, v.scores.size(), n);
  check(v.types.size() == n, "{}: tokenizer.ggml.token_type has {} values for {} tokens", v.source, v.types.size(), n);
}

void SpmTokenizer::check_ids() const {
  const SpmVocabulary& v = vocabulary_;
  for (const SpecialId& special : kSpecialIds) {
    const std::optional<int32_t> id = v.*special.member;
    check(!id || (*id >= 0 && *id < vocab_size()), "{}: {} is {}, outside the vocabulary of {} tokens", v.source,
          special.key, id.value_or(0), vocab_size());
  }
  check(!v.add_bos || v.bos, "{}: tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is not set",
        v.source);
  check(!v.add_eos || v.eos, "{}: tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is not set",
        v.source);
  std::unordered_map<std::string_view, int32_t> seen;
  seen.reserve(v.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string& token = v.tokens[size_t(id)];
    check(is_utf8(token), "{}: tokenizer.ggml.tokens[{}] is not UTF-8", v.source, id);
    check(!std::isnan(v.scores[size_t(id)]), "{}: tokenizer.ggml.scores[{}] (token \"{}\") is not a number", v.source,
          id, token);
    const int32_t type = v.types[size_t(id)];
    check(type >= 1 && type <= 6, "{}: tokenizer.ggml.token_type[{}] (token \"{}\") is {}, not within 1 to 6", v.source,
          id, token, type);
    if (token.empty()) continue;  // a gap: never encoded, decodes to nothing
    const auto [earlier, is_new] = seen.emplace(token, id);
    check(is_new, "{}: tokenizer.ggml.tokens: \"{}\" is there twice, with the ids {} and {}", v.source, token,
          earlier->second, id);
  }
}

void SpmTokenizer::add_token(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  switch (type(id)) {
    case SpmType::unknown:
    case SpmType::control:
      return;
    case SpmType::byte:
      return add_byte_token(id);
    case SpmType::user_defined:
      text_of_[size_t(id)] = token;
      if (!token.empty()) literals_[uint8_t(token[0])].push_back(id);
      return;
    case SpmType::unused:
      has_unused_ = true;
      return add_piece(id);
    case SpmType::normal:
      return add_piece(id);
  }
}

void SpmTokenizer::add_byte_token(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  const std::optional<uint8_t> byte = byte_of_name(token);
  check(byte.has_value(), "{}: tokenizer.ggml.tokens[{}] is \"{}\"; a byte token (token_type 6) is written like <0x0A>",
        vocabulary_.source, id, token);
  int32_t& slot = byte_ids_[*byte];
  check(slot < 0, "{}: tokenizer.ggml.tokens: byte {} is there twice, with the ids {} and {}", vocabulary_.source,
        *byte, slot, id);
  slot = id;
  text_of_[size_t(id)] = std::string(1, char(*byte));
}

// Pieces are kept with plain spaces, so that texts need not be rewritten with U+2581 before they are encoded.
void SpmTokenizer::add_piece(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  std::string& text = text_of_[size_t(id)];
  text = with_spaces(token);
  // A piece with a space of its own is never found by the library, whose texts have U+2581 in its place.
  if (text.empty() || token.find(' ') != std::string::npos) return;
  ids_.emplace(text, id);
  longest_piece_ = std::max(longest_piece_, text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    neighbours_.set(size_t(uint8_t(text[i - 1])) << 8 | uint8_t(text[i]));
  }
}

const std::string& SpmTokenizer::text_of(int32_t id) const {
  check(id >= 0 && id < vocab_size(), "token id {} is outside the vocabulary of {} tokens", id, vocab_size());
  return text_of_[size_t(id)];
}

std::string SpmTokenizer::token_bytes(int32_t id) const { return text_of(id); }

std::string SpmTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += text_of(id);
  if (vocabulary_.add_space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

void SpmTokenizer::save(gguf::Writer& writer) const {
  const SpmVocabulary& v = vocabulary_;
  writer.set("tokenizer.ggml.model", gguf::Value(std::string("llama")));
  writer.set("tokenizer.ggml.pre", gguf::Value(std::string("default")));
  writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
  writer.set("tokenizer.ggml.scores", gguf::Value(gguf::Array(v.scores)));
  writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(v.types)));
  for (const SpecialId& special : kSpecialIds) {
    const std::optional<int32_t> id = v.*special.member;
    if (id) writer.set(special.key, gguf::Value(uint32_t(*id)));
  }
  writer.set("tokenizer.ggml.add_bos_token", gguf::Value(v.add_bos));
  writer.set("tokenizer.ggml.add_eos_token", gguf::Value(v.add_eos));
  writer.set("tokenizer.ggml.add_space_prefix", gguf::Value(v.add_space_prefix));
  if (v.remove_extra_whitespaces) writer.set("tokenizer.ggml.remove_extra_whitespaces", gguf::Value(true));
}

std::unique_ptr<Tokenizer> load_spm(const gguf::File& file) {
  SpmVocabulary v;
  v.source = file.path();
  v.tokens = file.get_strings("tokenizer.ggml.tokens");
  const size_t n = v.tokens.size();
  check(n > 0, "{}: tokenizer.ggml.tokens is empty", v.source);
  for (const SpecialId& special : kSpecialIds) {
    if (file.has(special.key)) {
      const uint32_t id = file.get_u32(special.key);
      check(id < n, "{}: {} is {}, outside the vocabulary of {} tokens", v.source, special.key, id, n);
      v.*special.member = int32_t(id);
    } else if (size_t(special.otherwise) < n) {
      v.*special.member = special.otherwise;
    }
  }
  // Without scores all merges are equal and the leftmost goes first, as in llama.cpp.
  v.scores = file.has("tokenizer.ggml.scores") ? file.get_f32s("tokenizer.ggml.scores") : std::vector<float>(n);
  v.types = file.has("tokenizer.ggml.token_type") ? file.get_i32s("tokenizer.ggml.token_type") : guess_types(v);
  v.add_bos = file.get_bool("tokenizer.ggml.add_bos_token", v.bos.has_value());
  v.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", false);
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", true);
  v.remove_extra_whitespaces = file.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  return std::make_unique<SpmTokenizer>(std::move(v));
}

}  // namespace toy

#include "text/spm.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581, how SentencePiece writes a space

}  // namespace

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

std::optional<uint8_t> byte_of_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const digits = token.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  if (error != std::errc() || end != digits + 2) return std::nullopt;
  return byte;
}

SpmTokenizer::SpmTokenizer(SpmVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  check_sizes();
  check_ids();
  check_tokens();
  chars_map_ = CharsMap(vocabulary_.chars_map, vocabulary_.source);
  byte_ids_.fill(-1);
  text_of_.resize(vocabulary_.tokens.size());
  ids_.reserve(vocabulary_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) add_token(id);
  has_all_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  for (std::vector<int32_t>& literals : literals_) {
    std::stable_sort(literals.begin(), literals.end(),
                     [&](int32_t a, int32_t b) { return text_of(a).size() > text_of(b).size(); });
  }
  if (vocabulary_.model == SpmModel::unigram) prepare_unigram();
}

void SpmTokenizer::check_sizes() const {
  const SpmVocabulary& v = vocabulary_;
  const size_t n = v.tokens.size();
  check(n > 0, "{}: {} is empty", v.source, v.names.tokens);
  check(n <= size_t(std::numeric_limits<int32_t>::max()), "{}: {} has {} tokens, too many", v.source, v.names.tokens,
        n);
  check(v.scores.size() == n, "{}: {} has {} values for {} tokens", v.source, v.names.scores, v.scores.size(), n);
  check(v.types.size() == n, "{}: {} has {} values for {} tokens", v.source, v.names.types, v.types.size(), n);
}

void SpmTokenizer::check_ids() const {
  const SpmVocabulary& v = vocabulary_;
  const auto check_id = [&](const char* key, std::optional<int32_t> id) {
    check(!id || (*id >= 0 && *id < vocab_size()), "{}: {} is {}, outside the vocabulary of {} tokens", v.source, key,
          id.value_or(0), vocab_size());
  };
  check_id("tokenizer.ggml.bos_token_id", v.bos);
  check_id("tokenizer.ggml.eos_token_id", v.eos);
  check_id("tokenizer.ggml.unknown_token_id", v.unknown);
  check(!v.add_bos || v.bos, "{}: tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is not set",
        v.source);
  check(!v.add_eos || v.eos, "{}: tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is not set",
        v.source);
}

void SpmTokenizer::check_tokens() const {
  const SpmVocabulary& v = vocabulary_;
  std::unordered_map<std::string_view, int32_t> seen;
  seen.reserve(v.tokens.size());
  size_t bytes = 0;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string& token = v.tokens[size_t(id)];
    const float score = v.scores[size_t(id)];
    check(is_utf8(token), "{}: {}[{}] is not UTF-8", v.source, v.names.tokens, id);
    // Merging only compares scores; a unigram model adds them up.
    check(v.model == SpmModel::bpe ? !std::isnan(score) : std::isfinite(score),
          "{}: {}[{}] (token \"{}\") is not a {}number", v.source, v.names.scores, id, token,
          v.model == SpmModel::bpe ? "" : "finite ");
    const int32_t type = v.types[size_t(id)];
    check(type >= 1 && type <= 6, "{}: {}[{}] (token \"{}\") is {}, not within 1 to 6", v.source, v.names.types, id,
          token, type);
    bytes += token.size();
    check(bytes < size_t(1) << 31, "{}: {} is 2 GiB or more", v.source, v.names.tokens);
    if (token.empty()) continue;  // a gap: never encoded, decodes to nothing
    const auto [earlier, is_new] = seen.emplace(token, id);
    check(is_new, "{}: {}: \"{}\" is there twice, with the ids {} and {}", v.source, v.names.tokens, token,
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
      longest_literal_ = std::max(longest_literal_, token.size());
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
  check(byte.has_value(), "{}: {}[{}] is \"{}\"; a byte token (type 6) is written like <0x0A>", vocabulary_.source,
        vocabulary_.names.tokens, id, token);
  int32_t& slot = byte_ids_[*byte];
  check(slot < 0, "{}: {}: byte {} is there twice, with the ids {} and {}", vocabulary_.source,
        vocabulary_.names.tokens, *byte, slot, id);
  slot = id;
  text_of_[size_t(id)] = std::string(1, char(*byte));
}

// Pieces are kept with plain spaces, so that texts need not be rewritten with U+2581 before they are encoded.
void SpmTokenizer::add_piece(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  std::string& text = text_of_[size_t(id)];
  text = with_spaces(token);
  if (vocabulary_.model == SpmModel::unigram) return;
  // A piece with a space of its own is never found by the library, whose texts have U+2581 in its place.
  if (text.empty() || token.find(' ') != std::string::npos) return;
  ids_.emplace(text, id);
  longest_piece_ = std::max(longest_piece_, text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    neighbours_.set(size_t(uint8_t(text[i - 1])) << 8 | uint8_t(text[i]));
  }
}

/// The longest user-defined token that a text begins with, or -1.
int32_t SpmTokenizer::literal_at(std::string_view rest) const {
  for (const int32_t id : literals_[uint8_t(rest[0])]) {
    if (rest.starts_with(text_of_[size_t(id)])) return id;
  }
  return -1;
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

std::vector<int32_t> SpmTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  EncodePlace place;
  encode_part(text, true, place, ids);
  return ids;
}

// The prefix belongs to the first part. A normalization may look at any stretch of the text, so it takes all of it.
size_t SpmTokenizer::encode_part(std::string_view text, bool last, EncodePlace& place,
                                 std::vector<int32_t>& ids) const {
  const SpmVocabulary& v = vocabulary_;
  if (!as_it_is() && !last) return 0;
  const size_t given = text.size(), prefix = v.add_space_prefix && !place.begun ? 1 : 0;
  std::string changed;
  if (!as_it_is())
    changed = normalized(text);
  else if (prefix > 0 && given > 0)
    changed.append(1, ' ').append(text);
  if (!as_it_is() || prefix > 0) text = changed;
  if (text.empty()) return given;
  const size_t used = v.model == SpmModel::bpe ? encode_bpe(text, prefix, last, place, ids)
                                               : encode_unigram(text, prefix, last, place, ids);
  if (used < prefix) return 0;  // not even that is certain
  place.begun = true;
  const size_t bytes = last ? given : used - prefix;
  place.bytes += bytes;
  return bytes;
}

uint64_t SpmTokenizer::fingerprint() const {
  const SpmVocabulary& v = vocabulary_;
  Xxh64 sum;
  const auto bytes = [&sum](const void* data, size_t n) {
    sum.update(std::as_bytes(std::span(static_cast<const char*>(data), n)));
  };
  const auto number = [&](int64_t n) { bytes(&n, sizeof n); };
  const auto text = [&](std::string_view t) {
    number(int64_t(t.size()));
    bytes(t.data(), t.size());
  };
  text(kind());
  for (const std::string& t : v.tokens) text(t);
  bytes(v.scores.data(), v.scores.size() * sizeof(float));
  bytes(v.types.data(), v.types.size() * sizeof(int32_t));
  for (const std::optional<int32_t> id : {v.bos, v.eos, v.unknown}) number(id.value_or(-1));
  for (const bool flag : {v.add_bos, v.add_eos, v.add_space_prefix, v.remove_extra_whitespaces}) number(flag);
  text(v.chars_map);
  return sum.digest();
}

}  // namespace toy

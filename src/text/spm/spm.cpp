#include "text/spm/spm.h"

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

SpmTokenizer::SpmTokenizer(SpmVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  check_vocabulary(vocabulary_);
  check_scores();
  chars_map_ = CharsMap(vocabulary_.chars_map, vocabulary_.source);
  byte_ids_.fill(-1);
  texts_.resize(vocabulary_.tokens.size());
  ids_ = TokenIds(vocabulary_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id) add_token(id);
  has_all_bytes_ = std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
  find_literals(false);
  std::vector<PieceTrie::Entry> literals;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (type(id) == TokenType::user_defined) literals.push_back({text_of(id), id});
  }
  user_defined_ = Literals(std::move(literals));
  if (vocabulary_.model == SpmModel::unigram) prepare_unigram();
  if (vocabulary_.model == SpmModel::ranked) prepare_merges();
}

std::string_view SpmTokenizer::kind() const {
  constexpr std::string_view kKinds[] = {"spm", "unigram", "gemma4"};
  return kKinds[size_t(vocabulary_.model)];
}

void SpmTokenizer::check_scores() const {
  const SpmVocabulary& v = vocabulary_;
  if (v.model == SpmModel::ranked) return;
  check(v.scores.size() == v.tokens.size(), "{}: {} has {} values for {} tokens", v.source, v.names.scores,
        v.scores.size(), v.tokens.size());
  for (int32_t id = 0; id < v.size(); ++id) {
    const float score = v.scores[size_t(id)];
    // Merging only compares scores; a unigram model adds them up.
    check(v.model == SpmModel::bpe ? !std::isnan(score) : std::isfinite(score),
          "{}: {}[{}] (token \"{}\") is not a {}number", v.source, v.names.scores, id, v.tokens[size_t(id)],
          v.model == SpmModel::bpe ? "" : "finite ");
  }
}

void SpmTokenizer::add_token(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  switch (type(id)) {
    case TokenType::unknown:
    case TokenType::control:
      return;
    case TokenType::byte:
      return add_byte_token(id);
    case TokenType::user_defined:
      texts_[size_t(id)] = token;
      if (vocabulary_.model == SpmModel::ranked) ids_.add(texts_[size_t(id)], id);  // merges may name it
      return;
    case TokenType::unused:
      has_unused_ = vocabulary_.model != SpmModel::ranked;
      return add_piece(id);
    case TokenType::normal:
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
  texts_[size_t(id)] = std::string(1, char(*byte));
}

// Pieces are kept with plain spaces, so that texts need not be rewritten with U+2581 before they are encoded.
void SpmTokenizer::add_piece(int32_t id) {
  const std::string& token = vocabulary_.tokens[size_t(id)];
  std::string& text = texts_[size_t(id)];
  text = with_spaces(token);
  if (vocabulary_.model == SpmModel::unigram) return;
  // A piece with a space of its own is never found by the library, whose texts have U+2581 in its place.
  if (text.empty() || token.find(' ') != std::string::npos) return;
  ids_.add(text, id);
  if (vocabulary_.model == SpmModel::ranked) return;
  longest_piece_ = std::max(longest_piece_, text.size());
  for (size_t i = 1; i < text.size(); ++i) {
    neighbours_.set(size_t(uint8_t(text[i - 1])) << 8 | uint8_t(text[i]));
  }
}

std::string SpmTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text = VocabularyTokenizer::decode(ids);
  if (vocabulary_.add_space_prefix && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

// The prefix belongs to the first part. A normalization may look at any stretch of the text, so it takes all of it.
size_t SpmTokenizer::encode_text(std::string_view text, bool last, EncodePlace& place,
                                 std::vector<int32_t>& ids) const {
  const SpmVocabulary& v = vocabulary_;
  if (!as_it_is() && !last) return 0;
  const size_t given = text.size(), prefix = v.add_space_prefix && !place.begun ? 1 : 0;
  std::string changed;
  if (!as_it_is())
    changed = normalized(text, place.bytes);
  else if (prefix > 0)
    changed.append(1, ' ').append(text);
  if (!as_it_is() || prefix > 0) text = changed;
  if (text.empty()) return given;
  const size_t used = v.model == SpmModel::unigram ? encode_unigram(text, prefix, last, place, ids)
                                                   : encode_bpe(text, prefix, last, place, ids);
  if (used < prefix) return 0;  // not even that is certain
  place.begun = true;
  return last ? given : used - prefix;
}

uint64_t SpmTokenizer::fingerprint() const {
  const SpmVocabulary& v = vocabulary_;
  Fingerprint sum;
  sum.text(kind());
  for (const std::string& t : v.tokens) sum.text(t);
  sum.bytes(v.scores.data(), v.scores.size() * sizeof(float));
  for (const std::string& merge : v.merges) sum.text(merge);
  sum.bytes(v.types.data(), v.types.size() * sizeof(int32_t));
  for (const std::optional<int32_t> id : {v.bos, v.eos, v.unknown}) sum.number(id.value_or(-1));
  for (const bool flag : {v.add_bos, v.add_eos, v.add_space_prefix, v.remove_extra_whitespaces}) sum.number(flag);
  sum.text(v.chars_map);
  return sum.digest();
}

}  // namespace toy

#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "text/special_tokens.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr const char* kAddSeparator = "tokenizer.ggml.add_sep_token";

/// Key of a special id, and where it goes.
struct MainId {
  const char* key;
  std::optional<int32_t> Vocabulary::*member;
  int32_t VocabularyDefaults::*otherwise;
};
constexpr MainId kMainIds[] = {
    {"tokenizer.ggml.bos_token_id", &Vocabulary::bos, &VocabularyDefaults::bos},
    {"tokenizer.ggml.eos_token_id", &Vocabulary::eos, &VocabularyDefaults::eos},
    {"tokenizer.ggml.unknown_token_id", &Vocabulary::unknown, &VocabularyDefaults::unknown},
};

/// Types for a file without tokenizer.ggml.token_type, from names and special ids.
std::vector<int32_t> guess_types(const Vocabulary& v) {
  std::vector<int32_t> types;
  for (const std::string& token : v.tokens)
    types.push_back(int32_t(byte_of_name(token) ? TokenType::byte : TokenType::normal));
  const auto mark = [&](std::optional<int32_t> id, TokenType type) {
    if (id) types[size_t(*id)] = int32_t(type);
  };
  mark(v.bos, TokenType::control);
  mark(v.eos, TokenType::control);
  mark(v.unknown, TokenType::unknown);
  return types;
}

void check_sizes(const Vocabulary& v) {
  const size_t n = v.tokens.size();
  check(n > 0, "{}: {} is empty", v.source, v.names.tokens);
  check(n <= size_t(std::numeric_limits<int32_t>::max()), "{}: {} has {} tokens, too many", v.source, v.names.tokens,
        n);
  check(v.types.size() == n, "{}: {} has {} values for {} tokens", v.source, v.names.types, v.types.size(), n);
}

void check_ids(const Vocabulary& v) {
  for (const MainId& main : kMainIds) {
    const std::optional<int32_t> id = v.*main.member;
    check(!id || (*id >= 0 && *id < v.size()), "{}: {} is {}, outside the vocabulary of {} tokens", v.source, main.key,
          id.value_or(0), v.size());
  }
  check(!v.add_bos || v.bos, "{}: tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is not set",
        v.source);
  check(!v.add_eos || v.eos, "{}: tokenizer.ggml.add_eos_token is true, but tokenizer.ggml.eos_token_id is not set",
        v.source);
}

// Such tokens are looked for at every place of a text.
constexpr size_t kLongestLiteral = 1024;

TokenIds check_tokens(const Vocabulary& v) {
  TokenIds seen(v.tokens.size());
  size_t bytes = 0;
  for (int32_t id = 0; id < v.size(); ++id) {
    const std::string& token = v.tokens[size_t(id)];
    const int32_t type = v.types[size_t(id)];
    check(is_utf8(token), "{}: {}[{}] is not UTF-8", v.source, v.names.tokens, id);
    check(type >= 1 && type <= 6, "{}: {}[{}] (token \"{}\") is {}, not within 1 to 6", v.source, v.names.types, id,
          token, type);
    const bool literal =
        v.type(id) == TokenType::user_defined || v.type(id) == TokenType::control || v.type(id) == TokenType::unknown;
    check(!literal || token.size() <= kLongestLiteral,
          "{}: {}[{}] has {} bytes; a user-defined or control token has at most {}", v.source, v.names.tokens, id,
          token.size(), kLongestLiteral);
    bytes += token.size();
    check(bytes < size_t(1) << 31, "{}: {} is 2 GiB or more", v.source, v.names.tokens);
    if (token.empty()) continue;  // a gap: never encoded, decodes to nothing
    const int32_t* earlier = seen.add(token, id);
    check(!earlier, "{}: {}: \"{}\" is there twice, with the ids {} and {}", v.source, v.names.tokens, token,
          earlier ? *earlier : -1, id);
  }
  return seen;
}

}  // namespace

std::optional<uint8_t> byte_of_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* const digits = token.data() + 3;
  const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
  if (error != std::errc() || end != digits + 2) return std::nullopt;
  return byte;
}

TokenIds check_vocabulary(const Vocabulary& v) {
  check_sizes(v);
  check_ids(v);
  return check_tokens(v);
}

void read_vocabulary(const gguf::File& file, const VocabularyDefaults& otherwise, Vocabulary& v) {
  v.source = file.path();
  v.tokens = file.get_strings(v.names.tokens);
  const size_t n = v.tokens.size();
  check(n > 0, "{}: {} is empty", v.source, v.names.tokens);
  for (const MainId& main : kMainIds) {
    const int32_t usual = otherwise.*main.otherwise;
    if (file.has(main.key)) {
      const uint32_t id = file.get_u32(main.key);
      check(id < n, "{}: {} is {}, outside the vocabulary of {} tokens", v.source, main.key, id, n);
      v.*main.member = int32_t(id);
    } else if (usual >= 0 && size_t(usual) < n) {
      v.*main.member = usual;
    }
  }
  // Of the others one outside the vocabulary is none, as in llama.cpp.
  for (const auto& [key, value] : file.metadata()) {
    const auto is_this = [&key = key](const MainId& main) { return key == main.key; };
    const uint32_t* id = std::get_if<uint32_t>(&value);
    if (key.starts_with("tokenizer.ggml.") && key.ends_with("_token_id") && id && *id < n &&
        std::none_of(std::begin(kMainIds), std::end(kMainIds), is_this))
      v.other_ids.emplace(key, int32_t(*id));
  }
  v.add_bos = file.get_bool("tokenizer.ggml.add_bos_token", otherwise.add_bos && v.bos);
  v.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", otherwise.add_eos && v.eos);
  if (file.has(kAddSeparator)) v.add_sep = file.get_bool(kAddSeparator, false);
  v.types = file.has(v.names.types) ? file.get_i32s(v.names.types) : guess_types(v);
  check_sizes(v);
  find_special_tokens(file.get_string("general.name", ""), v);
}

ControlTokens without(ControlTokens control, std::initializer_list<std::string_view> there) {
  std::erase_if(control.names, [&](const std::string& name) { return std::ranges::find(there, name) != there.end(); });
  return control;
}

void add_control_tokens(Vocabulary& v, const ControlTokens& control) {
  for (const std::string& name : control.names) {
    if (name == control.end_of_turn) v.other_ids["tokenizer.ggml.eot_token_id"] = v.size();
    v.tokens.push_back(name);
    v.types.push_back(int32_t(TokenType::control));
  }
  if (!control.names.empty()) find_special_tokens("", v);
}

void save_vocabulary(const Vocabulary& v, gguf::Writer& writer, const std::vector<float>& scores) {
  writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(v.tokens)));
  if (!scores.empty()) writer.set("tokenizer.ggml.scores", gguf::Value(gguf::Array(scores)));
  writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(v.types)));
  for (const MainId& main : kMainIds) {
    if (const std::optional<int32_t> id = v.*main.member) writer.set(main.key, gguf::Value(uint32_t(*id)));
  }
  for (const auto& [key, id] : v.other_ids) writer.set(key, gguf::Value(uint32_t(id)));
  writer.set("tokenizer.ggml.add_bos_token", gguf::Value(v.add_bos));
  writer.set("tokenizer.ggml.add_eos_token", gguf::Value(v.add_eos));
  if (v.add_sep) writer.set(kAddSeparator, gguf::Value(*v.add_sep));
}

std::optional<bool> separates_twice(const Tokenizer& tokenizer) {
  const auto* known = dynamic_cast<const VocabularyTokenizer*>(&tokenizer);
  return known ? known->separates_twice() : std::nullopt;
}

std::optional<FillTokens> fill_tokens(const Tokenizer& tokenizer) {
  const auto* known = dynamic_cast<const VocabularyTokenizer*>(&tokenizer);
  return known ? known->fill() : std::nullopt;
}

std::optional<FillTokens> VocabularyTokenizer::fill() const {
  const FillTokens& fill = vocabulary().fill;
  if (fill.prefix < 0 || fill.suffix < 0 || fill.middle < 0) return std::nullopt;
  return fill;
}

std::vector<int32_t> VocabularyTokenizer::end_of_generation() const {
  const Vocabulary& v = vocabulary();
  std::vector<int32_t> ids = v.end_of_generation;
  if (v.eos && !std::binary_search(ids.begin(), ids.end(), *v.eos))
    ids.insert(std::lower_bound(ids.begin(), ids.end(), *v.eos), *v.eos);
  return ids;
}

void VocabularyTokenizer::find_literals(bool user_defined) {
  const Vocabulary& v = vocabulary();
  std::vector<PieceTrie::Entry> always, on_request;
  for (int32_t id = 0; id < v.size(); ++id) {
    const TokenType type = v.type(id);
    const bool on_sight = user_defined && type == TokenType::user_defined;
    const PieceTrie::Entry entry = {v.tokens[size_t(id)], id};
    if (on_sight) always.push_back(entry);
    if (on_sight || type == TokenType::control || type == TokenType::unknown) on_request.push_back(entry);
  }
  always_ = Literals(std::move(always));
  on_request_ = Literals(std::move(on_request));
}

const std::string& VocabularyTokenizer::text_of(int32_t id) const {
  check(id >= 0 && id < vocab_size(), "token id {} is outside the vocabulary of {} tokens", id, vocab_size());
  return texts_[size_t(id)];
}

std::string VocabularyTokenizer::written(int32_t id) const {
  const std::string& text = text_of(id);
  return vocabulary().type(id) == TokenType::control ? vocabulary().tokens[size_t(id)] : text;
}

std::string VocabularyTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += text_of(id);
  return text;
}

std::vector<size_t> VocabularyTokenizer::control_names(std::string_view text) const {
  std::vector<size_t> begins;
  for (size_t i = 0; (i = on_request_.find(text, i, true).begin) < text.size(); ++i)
    if (const int32_t id = on_request_.at(text.substr(i)).id; id != always_.at(text.substr(i)).id || is_shown(id))
      begins.push_back(i);
  return begins;
}

// As Literals::find(). The text begins at this offset of the complete one.
Literals::Match VocabularyTokenizer::find_literal(std::string_view text, size_t from, bool last, size_t offset,
                                                  const EncodeOptions& options) const {
  if (!options.parse_special) return always_.find(text, from, last);
  while (true) {
    Literals::Match found = on_request_.find(text, from, last);
    if (found.bytes == 0 || !std::ranges::binary_search(options.letters, offset + found.begin)) return found;
    if (const Literals::Match other = always_.at(text.substr(found.begin)); other.bytes > 0 && !is_shown(other.id))
      return {found.begin, other.bytes, other.id};
    from = found.begin + 1;
  }
}

// Between two tokens that are written out lies a text of its own. Where more text follows, the end is left for later if
// such a token or the spaces that it takes may go on.
size_t VocabularyTokenizer::encode_part(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids,
                                        EncodeOptions options) const {
  const std::vector<int32_t>& strips = vocabulary().strips_after;
  const size_t offset = place.bytes;
  size_t at = 0;
  while (at < text.size()) {
    const Literals::Match found = find_literal(text, at, last, offset, options);
    if (found.begin > at) {
      const size_t used = encode_text(text.substr(at, found.begin - at), last || found.bytes > 0, place, ids);
      place.bytes += used;
      at += used;
    }
    if (found.bytes == 0 || at < found.begin) break;
    size_t end = found.begin + found.bytes;
    if (std::binary_search(strips.begin(), strips.end(), found.id)) {
      end = std::min(text.find_first_not_of(" \t\n\v\f\r", end), text.size());
      if (end == text.size() && !last) break;
    }
    ids.push_back(found.id);
    place = {place.bytes + (end - at), false, false};
    at = end;
  }
  return at;
}

}  // namespace toy

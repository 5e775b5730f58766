#include "hf/wordpiece_files.h"

#include <algorithm>

#include "text/wordpiece.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kGoesOn = "##", kBegins = "\u2581";

void set_token(WordPieceVocabulary& v, int64_t vocab, int64_t id, const std::string& text) {
  check(id >= 0 && id < vocab, "{}: token '{}' has the id {}; the embedding has {} rows", v.source, text, id, vocab);
  if (size_t(id) >= v.tokens.size()) v.tokens.resize(size_t(id) + 1);
  std::string& there = v.tokens[size_t(id)];
  check(there.empty() || there == text, "{}: the tokens '{}' and '{}' have the same id, {}", v.source, there, text, id);
  there = text;
}

void read_lines(std::string_view text, int64_t vocab, WordPieceVocabulary& v) {
  for (int64_t id = 0; !text.empty(); ++id) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string token(text.substr(0, end));
    if (token.ends_with('\r')) token.pop_back();
    if (!token.empty()) set_token(v, vocab, id, token);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// null stands for what lowercase says.
void read_case(const Config& c, std::string_view lower, WordPieceVocabulary& v) {
  v.lowercase = c.flag(lower, true);
  const json* strips = c.find("strip_accents");
  v.strip_accents = strips ? c.flag("strip_accents", v.lowercase) : v.lowercase;
}

void read_json_tokens(const Config& file, int64_t vocab, WordPieceVocabulary& v) {
  const Config model = file.object("model"), vocabulary = model.object("vocab"), normalizer = file.object("normalizer");
  model.require("continuing_subword_prefix", std::string(kGoesOn));
  model.require("max_input_chars_per_word", 100);
  for (const auto& [text, id] : vocabulary.values().items())
    set_token(v, vocab, json_number<int64_t>(id, vocabulary.path(), 0), text);
  normalizer.require("type", "BertNormalizer");
  normalizer.require("clean_text", true);
  normalizer.require("handle_chinese_chars", true);
  read_case(normalizer, "lowercase", v);
  file.object("pre_tokenizer").require("type", "BertPreTokenizer");
}

std::string special_or(const TokenizerFiles& files, const char* name, const char* usual) {
  const std::string text = files.special(name);
  return text.empty() ? usual : text;
}

}  // namespace

bool is_wordpiece(const TokenizerFiles& files) {
  if (files.tokenizer_json) return files.tokenizer_json->object("model").text("type", "") == "WordPiece";
  return !files.vocab_txt.empty();
}

std::shared_ptr<const Tokenizer> read_wordpiece(const TokenizerFiles& files, int64_t vocab) {
  WordPieceVocabulary v;
  v.source = files.tokenizer_json ? files.tokenizer_json->path() : files.folder + "/vocab.txt";
  if (files.tokenizer_json) {
    read_json_tokens(*files.tokenizer_json, vocab, v);
  } else {
    read_lines(files.vocab_txt, vocab, v);
    read_case(files.tokenizer_config, "do_lower_case", v);
    files.tokenizer_config.require("tokenize_chinese_chars", true);
  }
  v.tokens.resize(size_t(vocab));
  v.types.assign(size_t(vocab), int32_t(TokenType::normal));
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (v.tokens[id].empty()) v.tokens[id] = fmt::format("[PAD{}]", id), v.types[id] = int32_t(TokenType::unused);
  const auto id_of = [&](const std::string& text) -> std::optional<int32_t> {
    const auto it = std::ranges::find(v.tokens, text);
    if (it == v.tokens.end()) return std::nullopt;
    v.types[size_t(it - v.tokens.begin())] = int32_t(TokenType::control);
    return int32_t(it - v.tokens.begin());
  };
  v.unknown = id_of(special_or(files, "unk_token", "[UNK]"));
  v.bos = id_of(special_or(files, "cls_token", "[CLS]"));
  v.eos = id_of(special_or(files, "sep_token", "[SEP]"));
  check(v.unknown && v.bos && v.eos, "{}: one of the tokens [UNK], [CLS] and [SEP] is not there", v.source);
  v.other_ids["tokenizer.ggml.seperator_token_id"] = *v.eos;  // spelled so
  if (const auto id = id_of(special_or(files, "pad_token", "[PAD]")))
    v.other_ids["tokenizer.ggml.padding_token_id"] = *id;
  if (const auto id = id_of(special_or(files, "mask_token", "[MASK]")))
    v.other_ids["tokenizer.ggml.mask_token_id"] = *id;
  v.add_bos = v.add_eos = true;
  mark_beginnings(v);
  return std::make_shared<const WordPieceTokenizer>(std::move(v));
}

ordered_json wordpiece_json(const gguf::File& file, const std::vector<std::string>& tokens,
                            const std::vector<int32_t>& types) {
  ordered_json vocab = ordered_json::object();
  const bool marked = std::ranges::any_of(tokens, [](const std::string& t) { return t.starts_with(kBegins); });
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == int32_t(TokenType::unused)) continue;  // read_wordpiece() fills them up
    std::string text = tokens[id];
    if (marked && types[id] == int32_t(TokenType::normal))
      text = text.starts_with(kBegins) ? text.substr(kBegins.size()) : std::string(kGoesOn) + text;
    vocab[text] = id;
  }
  const uint32_t unknown = file.get_u32("tokenizer.ggml.unknown_token_id", 100);
  const bool lower = file.get_bool("tokenizer.ggml.normalizer.lowercase", true);
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", file.get_bool("tokenizer.ggml.normalizer.strip_accents", lower)},
            {"lowercase", lower}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"decoder", {{"type", "WordPiece"}, {"prefix", kGoesOn}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", unknown < tokens.size() ? tokens[unknown] : ""},
            {"continuing_subword_prefix", kGoesOn},
            {"max_input_chars_per_word", 100},
            {"vocab", vocab}}}};
}

}  // namespace toy::hf

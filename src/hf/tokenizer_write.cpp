// Tokenizers of GGUF as the files of Hugging Face's tokenizers.
#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "hf/chat_templates.h"
#include "hf/tokenizer_files.h"
#include "hf/tokenizer_json.h"
#include "hf/wordpiece_files.h"
#include "text/bpe/bpe.h"
#include "text/bpe/split_rules.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::hf {
namespace {

using nlohmann::ordered_json;

constexpr const char* kMark = "\u2581";  // a space, as SentencePiece writes it

// What the files cannot hold: they are left out, with a warning.
struct Unsupported {
  std::string why;
};
template <class... A>
void require(bool holds, fmt::format_string<A...> text, A&&... values) {
  if (!holds) throw Unsupported{fmt::format(text, std::forward<A>(values)...)};
}

std::shared_ptr<const Tokenizer> load(const gguf::File& file) try {
  return load_tokenizer(file);
} catch (const Error& e) {
  throw Error(e.code(), fmt::format("{}; --no-tokenizer leaves the tokenizer out", e.what()));
}

std::string with_marks(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? std::string_view(kMark) : std::string_view(&c, 1);
  return out;
}

// What all kinds have. In `ranked`, spaces of user-defined tokens are marked, so that merges can name them.
struct Tokens {
  std::vector<std::string> text;
  std::vector<int32_t> types;
  bool ranked;
  explicit Tokens(const gguf::File& file)
      : text(file.get_strings("tokenizer.ggml.tokens")),
        types(text.size(), int32_t(TokenType::normal)),
        ranked(file.get_string("tokenizer.ggml.model") == "gemma4") {
    if (file.has("tokenizer.ggml.token_type")) types = file.get_i32s("tokenizer.ggml.token_type");
    for (size_t id = 0; ranked && id < text.size(); ++id)
      if (type(id) == TokenType::user_defined) text[id] = with_marks(text[id]);
  }
  TokenType type(size_t id) const { return TokenType(types[id]); }
  bool is_added(size_t id) const {
    return type(id) == TokenType::control || type(id) == TokenType::user_defined || type(id) == TokenType::unknown;
  }
};

std::string token_of(const gguf::File& file, const Tokens& tokens, const char* key) {
  const std::string name = std::string("tokenizer.ggml.") + key;
  if (!file.has(name)) return "";
  const uint32_t id = file.get_u32(name);
  return id < tokens.text.size() ? tokens.text[id] : "";
}

ordered_json added_tokens(const Tokens& tokens) {
  ordered_json list = ordered_json::array();
  for (size_t id = 0; id < tokens.text.size(); ++id)
    if (tokens.is_added(id))
      list.push_back({{"id", id},
                      {"content", tokens.text[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", tokens.ranked && tokens.text[id].find(kMark) != std::string::npos},
                      {"special", tokens.type(id) != TokenType::user_defined ||
                                      (tokens.ranked && is_shown_in_gemma4(tokens.text[id]))}});
  return list;
}

ordered_json vocabulary(const Tokens& tokens) {
  ordered_json vocab = ordered_json::object();
  for (size_t id = 0; id < tokens.text.size(); ++id) vocab[tokens.text[id]] = id;
  return vocab;
}

// Text between bos and eos.
ordered_json post_processor(const gguf::File& file, const Tokenizer& tokenizer, const Tokens& tokens) {
  ordered_json single = ordered_json::array(), special = ordered_json::object();
  const auto put = [&](int32_t id) {
    const std::string& text = tokens.text[size_t(id)];
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    special[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  if (tokenizer.adds_bos()) put(*tokenizer.bos());
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (tokenizer.adds_eos()) put(*tokenizer.eos());
  ordered_json pair = single;
  const auto separate = [&](int type) {
    pair.push_back({{"SpecialToken", {{"id", tokens.text[size_t(*tokenizer.eos())]}, {"type_id", type}}}});
  };
  const bool is_roberta = file.get_u32("tokenizer.ggml.token_type_count", 0) == 1;
  if (tokenizer.adds_eos() && is_roberta) separate(0);  // two of them
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", is_roberta ? 0 : 1}}}});
  if (tokenizer.adds_eos()) separate(is_roberta ? 0 : 1);
  if (special.empty()) return nullptr;
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// The steps that cut a text.
ordered_json pre_tokenizer(const std::vector<std::string>& regexes) {
  ordered_json steps = ordered_json::array();
  for (const std::string& regex : regexes)
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

void write_byte_level(const gguf::File& file, const Tokens& tokens, ordered_json& t) {
  const PreTokenizer* pre = pre_tokenizer_of(file);
  const std::vector<std::string> regexes = regexes_of(*pre);
  require(!regexes.empty(), "the pre-tokenizer '{}' cannot be written as regular expressions", first_name(*pre));
  t["normalizer"] = nullptr;
  t["pre_tokenizer"] = pre_tokenizer(regexes);
  t["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  t["model"] = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", bool(pre->flags & PreTokenizer::kIgnoreMerges)},
                {"vocab", vocabulary(tokens)},
                {"merges", ordered_json::array()}};
  const std::vector<std::string> none;
  const bool has_merges = file.has("tokenizer.ggml.merges");
  std::set<std::string_view> known(tokens.text.begin(), tokens.text.end());
  for (const std::string& merge : has_merges ? file.get_strings("tokenizer.ggml.merges") : none) {
    const size_t space = merge.find(' ', 1);
    const std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    require(known.contains(left + right), "the merge '{}' makes no token, which tokenizer.json cannot hold", merge);
    t["model"]["merges"].push_back({left, right});
  }
}

// The ways to make each piece of two, those of the best piece first.
ordered_json merges_of(const gguf::File& file, const Tokens& tokens) {
  const std::vector<float>& scores = file.get_f32s("tokenizer.ggml.scores");
  check(scores.size() == tokens.text.size(), "{}: there are {} scores for {} tokens", file.path(), scores.size(),
        tokens.text.size());
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < tokens.text.size(); ++id)
    if (tokens.type(id) == TokenType::normal || tokens.type(id) == TokenType::unused) ids.emplace(tokens.text[id], id);
  std::vector<size_t> order(tokens.text.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  ordered_json merges = ordered_json::array();
  for (const size_t id : order) {
    const std::string_view piece = tokens.text[id];
    if (tokens.type(id) != TokenType::normal) continue;
    std::vector<std::pair<size_t, size_t>> ways;
    for (size_t at = utf8_character(piece); at > 0 && at < piece.size();
         at += std::max<size_t>(1, utf8_character(piece.substr(at)))) {
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left != ids.end() && right != ids.end()) ways.emplace_back(left->second, right->second);
    }
    std::sort(ways.begin(), ways.end());
    for (const auto& [left, right] : ways) merges.push_back({tokens.text[left], tokens.text[right]});
  }
  return merges;
}

ordered_json ranked_merges(const gguf::File& file) {
  ordered_json merges = ordered_json::array();
  for (const std::string& merge : file.get_strings("tokenizer.ggml.merges")) {
    const size_t space = merge.find(' ', 1);
    merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return merges;
}

void write_sentencepiece(const gguf::File& file, const Tokens& tokens, ordered_json& t) {
  require(!file.has("tokenizer.ggml.precompiled_charsmap"), "a tokenizer that normalizes texts cannot be written");
  const bool prefix = !tokens.ranked && file.get_bool("tokenizer.ggml.add_space_prefix", true);
  ordered_json steps = ordered_json::array(), back = ordered_json::array();
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}});
  back.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  back.push_back({{"type", "ByteFallback"}});
  back.push_back({{"type", "Fuse"}});
  if (prefix) back.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  t["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  t["pre_tokenizer"] = nullptr;
  if (tokens.ranked)
    t["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", kLineBreaks}}}, {"behavior", "Isolated"}, {"invert", false}};
  t["decoder"] = {{"type", "Sequence"}, {"decoders", back}};
  const std::string unknown = token_of(file, tokens, "unknown_token_id");
  t["model"] = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", unknown.empty() ? ordered_json() : ordered_json(unknown)},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"ignore_merges", false},
                {"vocab", vocabulary(tokens)},
                {"merges", tokens.ranked ? ranked_merges(file) : merges_of(file, tokens)}};
}

void write_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

ordered_json tokenizer_config(const gguf::File& file, const Tokenizer& tokenizer, const Tokens& tokens) {
  ordered_json c = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [name, key] :
       {std::pair("bos_token", "bos_token_id"), std::pair("eos_token", "eos_token_id"),
        std::pair("unk_token", "unknown_token_id"), std::pair("pad_token", "padding_token_id"),
        std::pair("sep_token", "seperator_token_id"), std::pair("mask_token", "mask_token_id")})
    if (const std::string text = token_of(file, tokens, key); !text.empty()) c[name] = text;
  if (tokenizer.kind() == "wordpiece") c["cls_token"] = tokens.text[size_t(*tokenizer.bos())];
  c["add_bos_token"] = tokenizer.adds_bos(), c["add_eos_token"] = tokenizer.adds_eos();
  return c;
}

}  // namespace

bool write_tokenizer_files(const gguf::File& file, const std::string& folder, std::vector<std::string>& warnings) try {
  const std::string unsupported = unsupported_tokenizer(file);
  require(unsupported.empty(), "{}", unsupported);
  const auto tokenizer = load(file);
  if (!tokenizer) {
    warnings.push_back("there is no tokenizer in the file");
    return false;
  }
  const Tokens tokens(file);
  ordered_json t = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  t["added_tokens"] = added_tokens(tokens);
  const std::string_view kind = tokenizer->kind();
  const bool pieces = kind == "spm" || kind == "gemma4";
  require(kind == "bpe" || kind == "bytes" || kind == "wordpiece" || pieces,
          "a tokenizer of the kind {} cannot be written", kind);
  if (kind == "wordpiece")
    t.update(wordpiece_json(file, tokens.text, tokens.types));
  else if (pieces)
    write_sentencepiece(file, tokens, t);
  else
    write_byte_level(file, tokens, t);
  t["post_processor"] = post_processor(file, *tokenizer, tokens);
  write_text(folder + "tokenizer.json", json_text(t) + "\n");
  write_text(folder + "tokenizer_config.json", json_text(tokenizer_config(file, *tokenizer, tokens), 2) + "\n");
  save_chat_templates(file, folder);
  return true;
} catch (const Unsupported& u) {
  warnings.push_back("without its tokenizer: " + u.why);
  return false;
}

}  // namespace toy::hf

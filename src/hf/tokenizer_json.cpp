#include "hf/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "text/bpe/split_rules.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {
namespace {

using nlohmann::json;

// The members of a Sequence, or the one object; none if it is absent.
std::vector<Config> parts_of(const Config& file, std::string_view key, std::string_view list) {
  const Config object = file.object(key);
  if (object.values().empty()) return {};
  if (object.text("type", "") != "Sequence") return {object};
  const json* all = object.find(list);
  check(all && all->is_array(), "{}: '{}' is not a list", object.path(), list);
  std::vector<Config> parts;
  for (const json& part : *all) parts.emplace_back(part, object.path());
  return parts;
}

void set_token(const Config& file, std::vector<std::string>& tokens, int64_t vocab, int64_t id,
               const std::string& text) {
  check(id < vocab, "{}: token '{}' has the id {}; the embedding has {} rows", file.path(), text, id, vocab);
  if (size_t(id) >= tokens.size()) tokens.resize(size_t(id) + 1);
  std::string& there = tokens[size_t(id)];
  check(there.empty() || there == text, "{}: the tokens '{}' and '{}' have the same id, {}", file.path(), there, text,
        id);
  there = text;
}

void read_added(const Config& file, int64_t most, TokenizerJson& t) {
  const json* added = file.find("added_tokens");
  if (!added) return;
  check(added->is_array(), "{}: 'added_tokens' is not a list", file.path());
  for (const json& entry : *added) {
    const Config token(entry, file.path() + ": 'added_tokens'");
    const int64_t id = token.integer("id");
    const std::string text = token.text("content", "");
    check(!text.empty(), "{}: token {} has no 'content'", token.path(), id);
    if (id < most) set_token(file, t.tokens, most, id, text);
    t.added.push_back(added_token(id, token));
  }
}

void read_tokens(const Config& file, const Config& model, int64_t most, TokenizerJson& t) {
  const Config vocab = model.object("vocab");
  check(!vocab.values().empty(), "{} is empty", vocab.path());
  for (const auto& [text, id] : vocab.values().items())
    set_token(file, t.tokens, most, json_number<int64_t>(id, vocab.path(), 0), text);
  read_added(file, most, t);
}

// "left right", or a list of the two.
std::pair<std::string, std::string> parts_of_merge(const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0], merge[1]};
  if (!merge.is_string()) return {};
  const std::string text = merge;
  const size_t space = text.find(' ');
  if (space == text.npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

void read_merges(const Config& model, TokenizerJson& t) {
  const json* merges = model.find("merges");
  check(merges && merges->is_array(), "{}: 'merges' is not a list", model.path());
  std::unordered_set<std::string_view> known(t.tokens.begin(), t.tokens.end());
  for (const json& merge : *merges) {
    auto [left, right] = parts_of_merge(merge);
    if (left.empty() || right.empty())
      fail("{}: merge {} is {}, not two tokens", model.path(), t.merges.size(), json_text(merge));
    for (const std::string& token : {left, right, left + right})
      if (!known.contains(token))
        fail("{}: merge {}, {}, names '{}', which is no token", model.path(), t.merges.size(), json_text(merge), token);
    t.merges.emplace_back(std::move(left), std::move(right));
  }
}

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The expressions that cut a text; throws for a step that is none.
std::vector<std::string> regexes_in(const std::vector<Config>& steps) {
  std::vector<std::string> regexes;
  for (const Config& step : steps) {
    const std::string type = step.text("type", "");
    if (type == "ByteLevel") {
      check(!step.flag("add_prefix_space", false), "{}: 'add_prefix_space' is not supported", step.path());
      if (step.flag("use_regex", true)) regexes.push_back(kGpt2);
    } else if (type == "Digits") {
      regexes.push_back(step.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Split") {
      const Config pattern = step.object("pattern");
      check(pattern.has("Regex") && !step.flag("invert", false) && step.text("behavior", "") == "Isolated",
            "{}: a 'Split' of this kind is not supported: {}", step.path(), json_text(step.values()));
      regexes.push_back(pattern.text("Regex", ""));
    } else {
      fail("{}: a step of type '{}' is not supported", step.path(), type);
    }
  }
  return regexes;
}

void read_byte_level(const Config& file, const Config& model, const std::vector<Config>& steps, TokenizerJson& t) {
  for (const Config& step : parts_of(file, "normalizer", "normalizers")) {
    const std::string type = step.text("type", "");
    check(type == "NFC", "{}: a step of type '{}' is not supported", step.path(), type);
  }
  const std::vector<std::string> regexes = regexes_in(steps);
  const PreTokenizer* pre = find_pre_tokenizer(regexes, model.flag("ignore_merges", false));
  if (!pre)
    fail("{}: 'pre_tokenizer' is not one of the known ones; it cuts texts by {}", file.path(),
         fmt::join(regexes, " and "));
  t.pre = first_name(*pre);
}

// Whether a text gets a space in front; throws for steps that SentencePiece does not have.
void read_spaces(const Config& file, const std::vector<Config>& steps, TokenizerJson& t) {
  const json mark = "\u2581";
  for (const Config& step : parts_of(file, "normalizer", "normalizers")) {
    const std::string type = step.text("type", "");
    const bool prepends = type == "Prepend" && step.values().value("prepend", json()) == mark;
    const bool replaces = type == "Replace" && step.values().value("content", json()) == mark &&
                          step.object("pattern").text("String", "") == " ";
    check(prepends || replaces, "{}: a step of type '{}' is not supported: {}", step.path(), type,
          json_text(step.values()));
    t.add_space_prefix |= prepends;
  }
  for (const Config& step : steps) {
    const std::string type = step.text("type", "");
    // Gemma's cuts at spaces, of which none are left.
    if (type == "Split" && step.object("pattern").text("String", "") == " ") continue;
    if (type == "Split" && step.object("pattern").text("Regex", "") == kLineBreaks &&
        step.text("behavior", "") == "Isolated") {
      t.cuts_lines = true;
      continue;
    }
    check(type == "Metaspace" && step.values().value("replacement", json()) == mark && !step.flag("split", true),
          "{}: a step of type '{}' is not supported: {}", step.path(), type, json_text(step.values()));
    const std::string scheme = step.text("prepend_scheme", step.flag("add_prefix_space", true) ? "always" : "never");
    t.add_space_prefix |= scheme != "never";
  }
}

// Tokens between the two texts of a template for pairs.
int64_t separators(const json& pair, const std::string& path) {
  int64_t between = 0, texts = 0;
  for (const json& part : pair) {
    const bool is_text = Config(part, path).has("Sequence");
    texts += is_text, between += texts == 1 && !is_text;
  }
  return between;
}

// What a template puts around a text.
void read_template(const Config& file, TokenizerJson& t) {
  for (const Config& step : parts_of(file, "post_processor", "processors")) {
    const std::string type = step.text("type", "");
    if (type == "RobertaProcessing" || type == "BertProcessing") {  // {"cls": ["<s>", 0], "sep": ["</s>", 2]}
      for (const auto& [key, place] : {std::pair("cls", &t.first), std::pair("sep", &t.last)}) {
        const json* token = step.find(key);
        check(token && token->is_array() && !token->empty() && token->front().is_string(),
              "{}: '{}' is no list of a token and its id", step.path(), key);
        *place = token->front().get<std::string>();
      }
      t.separates_twice = type == "RobertaProcessing";
      continue;
    }
    if (type != "TemplateProcessing") continue;
    const json* single = step.find("single");
    check(single && single->is_array(), "{}: 'single' is not a list", step.path());
    bool before = true;
    for (const json& part : *single) {
      const Config item(part, step.path());
      if (item.has("Sequence")) {
        before = false;
        continue;
      }
      std::string& place = before ? t.first : t.last;
      check(place.empty(), "{}: 'single' has several tokens in one place", step.path());
      place = item.object("SpecialToken").text("id", "");
    }
    if (const json* pair = step.find("pair"); pair && pair->is_array())
      t.separates_twice = separators(*pair, step.path()) == 2;
  }
}

// The bytes that a text of base64 stands for. Throws for other characters.
std::string decoded_base64(const std::string& text, const std::string& where) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : std::string_view(text).substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    check(digit != kDigits.npos, "{} is not base64", where);
    bits = bits << 6 | uint32_t(digit);
    if (++count % 4 != 1) bytes += char(bits >> (6 - 2 * ((count - 1) % 4)) & 255);
  }
  return bytes;
}

// XLM-RoBERTa's kind: SentencePiece's replacements, no double spaces, and a space before the text.
void read_unigram(const Config& file, const Config& model, int64_t most, TokenizerJson& t) {
  t.unigram = true;
  const json* vocab = model.find("vocab");
  check(vocab && vocab->is_array() && !vocab->empty(), "{}: 'vocab' is not a list", model.path());
  for (size_t id = 0; id < vocab->size(); ++id) {
    const json& piece = (*vocab)[id];
    check(piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number(),
          "{}: token {} is {}, not a piece and its score", model.path(), id, json_text(piece));
    set_token(file, t.tokens, most, int64_t(id), piece[0]);
    t.scores.push_back(piece[1].get<float>());
  }
  const int64_t unknown = model.integer("unk_id", 0);
  check(unknown < int64_t(t.tokens.size()), "{}: 'unk_id' is {}, which is no token", model.path(), unknown);
  t.unknown = t.tokens[size_t(unknown)];
  check(!model.flag("byte_fallback", false), "{}: 'byte_fallback' is not supported in a Unigram", model.path());
  read_added(file, most, t);
  t.scores.resize(t.tokens.size());
  for (const Config& step : parts_of(file, "normalizer", "normalizers")) {
    const std::string type = step.text("type", "");
    const bool merges_spaces = type == "Replace" && step.object("pattern").text("Regex", "") == " {2,}";
    if (type == "Precompiled")
      t.chars_map = decoded_base64(step.text("precompiled_charsmap", ""), step.path() + ": 'precompiled_charsmap'");
    else
      check(merges_spaces || type == "Strip", "{}: a step of type '{}' is not supported: {}", step.path(), type,
            json_text(step.values()));
  }
  for (const Config& step : parts_of(file, "pre_tokenizer", "pretokenizers")) {
    const std::string type = step.text("type", "");
    if (type == "WhitespaceSplit") continue;
    check(type == "Metaspace" && step.text("replacement", "") == "\u2581",
          "{}: a step of type '{}' is not supported: {}", step.path(), type, json_text(step.values()));
    const std::string scheme = step.text("prepend_scheme", step.flag("add_prefix_space", true) ? "always" : "never");
    t.add_space_prefix |= scheme != "never";
  }
}

}  // namespace

AddedToken added_token(int64_t id, const Config& entry) {
  return {.id = id,
          .text = entry.text("content", ""),
          .special = entry.flag("special", false),
          .normalized = entry.flag("normalized", false),
          .strips = entry.flag("lstrip", false) || entry.flag("rstrip", false),
          .single_word = entry.flag("single_word", false)};
}

bool is_shown_in_gemma4(std::string_view token) {
  constexpr std::string_view kShown[] = {"<|channel>",       "<channel|>",       "<|tool_call>", "<tool_call|>",
                                         "<|tool_response>", "<tool_response|>", "<|\"|>"};
  return std::ranges::find(kShown, token) != std::end(kShown);
}

TokenizerJson read_tokenizer_json(const Config& file, int64_t vocab) {
  TokenizerJson t;
  const Config model = file.object("model");
  const std::string type = model.text("type", "BPE");
  if (type == "Unigram") {
    read_unigram(file, model, vocab, t);
    read_template(file, t);
    return t;
  }
  check(type == "BPE", "{}: a model of type '{}' is not supported; supported: BPE, Unigram", file.path(), type);
  check(model.has("merges"), "{} has no 'merges'; it is not a tokenizer of the kind BPE", model.path());
  read_tokens(file, model, vocab, t);
  read_merges(model, t);
  t.unknown = model.text("unk_token", "");
  check(model.text("continuing_subword_prefix", "").empty() && model.text("end_of_word_suffix", "").empty(),
        "{}: prefixes and suffixes of words are not supported", model.path());
  const std::vector<Config> steps = parts_of(file, "pre_tokenizer", "pretokenizers");
  t.byte_level =
      std::any_of(steps.begin(), steps.end(), [](const Config& c) { return c.text("type", "") == "ByteLevel"; });
  if (t.byte_level) {
    read_byte_level(file, model, steps, t);
  } else {
    check(model.flag("byte_fallback", false), "{}: BPE without bytes is not supported", file.path());
    read_spaces(file, steps, t);
  }
  read_template(file, t);
  return t;
}

}  // namespace toy::hf

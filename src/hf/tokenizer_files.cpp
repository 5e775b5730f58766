#include "hf/tokenizer_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "hf/chat_templates.h"
#include "hf/tokenizer_json.h"
#include "hf/wordpiece_files.h"
#include "text/bpe/bpe.h"
#include "text/special_tokens.h"
#include "text/spm/spm.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::hf {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Special tokens that the files name by what they are for, once each, in the order in which transformers adds them.
std::vector<std::string> special_texts(const TokenizerFiles& files) {
  std::vector<std::string> texts;
  const auto add = [&](const std::string& text) {
    if (!text.empty() && std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
  };
  for (const char* name : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    add(files.special(name));
  for (const Config* file : {&files.tokenizer_config, &files.special_tokens_map})
    for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
      const json* list = file->find(key);
      if (!list) continue;
      check(list->is_array() || list->is_object(), "{}: '{}' is neither a list nor an object", file->path(), key);
      for (const json& entry : *list) {
        const json& text = entry.is_object() && entry.contains("content") ? entry.at("content") : entry;
        check(text.is_string(), "{}: '{}' has {}, which is not a token", file->path(), key, json_text(entry));
        add(text);
      }
    }
  return texts;
}

// Added tokens, of all files that have some; where two name an id, the first file says what it is.
std::vector<AddedToken> added_tokens(const TokenizerFiles& files, std::vector<AddedToken> list) {
  std::unordered_set<int64_t> known;
  for (const AddedToken& token : list) known.insert(token.id);
  const Config decoder = files.tokenizer_config.object("added_tokens_decoder");
  for (const auto& [id, value] : decoder.values().items()) {
    const Config token(value, decoder.path());
    check(
        !id.empty() && id.size() < 9 && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; }),
        "{}: '{}' is not the id of a token", decoder.path(), id);
    if (const int64_t number = std::stol(id); known.insert(number).second) {
      list.push_back(added_token(number, token));
      list.back().file = "tokenizer_config.json";
    }
  }
  for (const auto& [text, id] : files.added_tokens.values().items()) {
    const int64_t number = json_number<int64_t>(id, fmt::format("{}: '{}'", files.added_tokens.path(), text), 0,
                                                std::numeric_limits<int32_t>::max());
    if (known.insert(number).second) list.push_back({.id = number, .text = text, .file = "added_tokens.json"});
  }
  const std::vector<std::string> special = special_texts(files);
  for (AddedToken& token : list) token.special |= std::ranges::find(special, token.text) != special.end();
  return list;
}

// Takes those out of the list that have no row in the embedding, and returns their texts.
std::vector<std::string> take_rowless(int64_t vocab, std::vector<AddedToken>& list,
                                      std::vector<std::string>& warnings) {
  const auto rest = std::stable_partition(list.begin(), list.end(), [&](const AddedToken& t) { return t.id < vocab; });
  std::vector<std::string> texts;
  for (auto token = rest; token != list.end(); ++token) {
    texts.push_back(token->text);
    const auto of_file = [&](const AddedToken& t) { return std::string_view(t.file) == token->file; };
    if (std::find_if(rest, token, of_file) != token) continue;
    const auto others = std::count_if(token, list.end(), of_file) - 1;
    warnings.push_back(fmt::format("{}: token {}, '{}', is left out{}, because the embedding has only {} rows",
                                   token->file, token->id, token->text,
                                   others > 0 ? fmt::format(" (and {} more)", others) : "", vocab));
  }
  list.erase(rest, list.end());
  return texts;
}

// Those of other files become tokens of tokenizer.json, unless it has another one of that id.
void take_added(const std::vector<AddedToken>& added, TokenizerJson& t, std::vector<std::string>& warnings) {
  t.added.clear();
  for (const AddedToken& token : added) {
    const std::string there = size_t(token.id) < t.tokens.size() ? t.tokens[size_t(token.id)] : "";
    if (there.empty() || there == token.text)
      t.added.push_back(token);
    else
      warnings.push_back(fmt::format("token {} is '{}' in tokenizer.json, which counts, and '{}' in {}", token.id,
                                     there, token.text, token.file));
  }
}

// What a GGUF cannot say of added tokens, and llama.cpp does not do.
void warn_of_flags(const std::vector<AddedToken>& added, std::vector<std::string>& warnings) {
  const auto warn = [&](bool AddedToken::*flag, std::string_view name, std::string_view what) {
    const auto has = [&](const AddedToken& t) { return t.*flag; };
    const auto first = std::ranges::find_if(added, has);
    if (first == added.end()) return;
    const auto others = std::ranges::count_if(added, has) - 1;
    warnings.push_back(fmt::format("'{}'{} {} ({}), which a GGUF cannot say; texts may get other ids there",
                                   first->text, others > 0 ? fmt::format(" (and {} more)", others) : "", what, name));
  };
  warn(&AddedToken::strips, "lstrip, rstrip", "should swallow the spaces next to it");
  warn(&AddedToken::single_word, "single_word", "should be found as a complete word only");
}

// They may name a token that is there already, and then say what it is.
void add(const std::vector<AddedToken>& added, bool spaces_are_marked, Vocabulary& v) {
  for (const AddedToken& token : added) {
    const auto at = size_t(token.id);
    if (at >= v.tokens.size()) v.tokens.resize(at + 1), v.types.resize(at + 1, int32_t(TokenType::unused));
    if (TokenType(v.types[at]) == TokenType::unknown || TokenType(v.types[at]) == TokenType::byte) continue;
    v.tokens[at] = spaces_are_marked && !token.special ? with_spaces(token.text) : token.text;
    v.types[at] = int32_t(token.special ? TokenType::control : TokenType::user_defined);
  }
}

// Special tokens that are named without an id have that of their text, or the next one, as in transformers. Those
// without a row have an id.
void add_special_tokens(const TokenizerFiles& files, int64_t vocab, const std::vector<std::string>& rowless,
                        Vocabulary& v, std::vector<std::string>& warnings) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = v.tokens.size(); id-- > 0;) ids[v.tokens[id]] = id;
  for (const std::string& text : special_texts(files)) {
    if (std::ranges::find(rowless, text) != rowless.end()) continue;
    const size_t at = v.tokens.size();
    if (const auto found = ids.find(text); found != ids.end()) {
      int32_t& type = v.types[found->second];
      if (type == int32_t(TokenType::normal)) type = int32_t(TokenType::control);
      continue;
    }
    if (int64_t(at) >= vocab) {
      warnings.push_back(
          fmt::format("the special token '{}' has no id: no file states one, and the embedding's {} rows have tokens",
                      text, vocab));
      continue;
    }
    v.tokens.push_back(text), v.types.push_back(int32_t(TokenType::control));
    warnings.push_back(
        fmt::format("no file states the id of the special token '{}'; it is {}, the next one", text, at));
  }
}

// Embeddings have more rows than there are tokens, for speed.
void fill_up(int64_t vocab, Vocabulary& v) {
  check(int64_t(v.tokens.size()) <= vocab, "{}: there are {} tokens; the embedding has {} rows", v.source,
        v.tokens.size(), vocab);
  v.tokens.resize(size_t(vocab)), v.types.resize(size_t(vocab), int32_t(TokenType::unused));
  for (size_t id = 0; id < v.tokens.size(); ++id)
    if (v.tokens[id].empty()) v.tokens[id] = fmt::format("[PAD{}]", id), v.types[id] = int32_t(TokenType::unused);
}

// Ids of special tokens by their texts, else as config.json has them.
void find_ids(const TokenizerFiles& files, const std::string& unknown, Vocabulary& v) {
  std::unordered_map<std::string_view, int32_t> ids;
  for (int32_t id = v.size() - 1; id >= 0; --id) ids[v.tokens[size_t(id)]] = id;
  const auto id_of = [&](const std::string& name, const std::string& otherwise = "") -> std::optional<int32_t> {
    std::string text = files.special(name + "_token");
    if (text.empty()) text = otherwise;
    if (const auto it = ids.find(text); it != ids.end()) return it->second;
    const std::vector<int64_t> given = files.config.integers(name + "_token_id");
    if (!given.empty() && given.front() < v.size()) return int32_t(given.front());
    return std::nullopt;
  };
  if (const auto id = id_of("bos")) v.bos = id;
  if (const auto id = id_of("eos")) v.eos = id;
  if (!v.unknown) v.unknown = id_of("unk", unknown);
  if (const auto id = id_of("pad")) v.other_ids["tokenizer.ggml.padding_token_id"] = *id;
}

// A generation ends after every id of generation_config.json: those that nothing else tells get keys.
void find_ends(const TokenizerFiles& files, Vocabulary& v, std::vector<std::string>& warnings) {
  find_special_tokens("", v);
  std::vector<int64_t> ends = files.generation_config.integers("eos_token_id");
  if (ends.empty()) ends = files.config.integers("eos_token_id");
  std::vector<const char*> keys{"tokenizer.ggml.eom_token_id", "tokenizer.ggml.eot_token_id"};
  for (const int64_t id : ends) {
    if (id >= v.size() || v.eos == int32_t(id) || std::ranges::binary_search(v.end_of_generation, int32_t(id)))
      continue;
    if (keys.empty()) {
      warnings.push_back(fmt::format("token {} ends a generation, which the GGUF cannot say", id));
      continue;
    }
    v.other_ids[keys.back()] = int32_t(id);
    keys.pop_back();
  }
}

void find_prefix(const TokenizerFiles& files, const TokenizerJson* file, bool otherwise, Vocabulary& v) {
  const auto is = [&](std::optional<int32_t> id, const std::string& text) {
    return id && !text.empty() && v.tokens[size_t(*id)] == text;
  };
  const bool adds_bos = file ? is(v.bos, file->first) : otherwise, adds_eos = file && is(v.eos, file->last);
  v.add_bos = files.tokenizer_config.flag("add_bos_token", adds_bos) && v.bos;
  v.add_eos = files.tokenizer_config.flag("add_eos_token", adds_eos) && v.eos;
  if (!file || !file->separates_twice || !v.eos) return;
  v.add_sep = true;
  v.other_ids["tokenizer.ggml.seperator_token_id"] = *v.eos;  // spelled so
}

void complete(const TokenizerFiles& files, const TokenizerJson* file, int64_t vocab,
              const std::vector<std::string>& rowless, Vocabulary& v, std::vector<std::string>& warnings) {
  add_special_tokens(files, vocab, rowless, v, warnings);
  fill_up(vocab, v);
  find_ids(files, file ? file->unknown : "", v);
  find_prefix(files, file, true, v);
  find_ends(files, v, warnings);
}

void take_tokens(const TokenizerJson& t, Vocabulary& v) {
  v.tokens = t.tokens;
  v.types.assign(v.tokens.size(), int32_t(TokenType::normal));
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    if (!t.byte_level && byte_of_name(v.tokens[id])) v.types[id] = int32_t(TokenType::byte);
    if (!t.byte_level && v.tokens[id] == t.unknown) v.types[id] = int32_t(TokenType::unknown);
  }
  add(t.added, !t.byte_level, v);
}

BpeVocabulary byte_level_vocabulary(const TokenizerJson& t) {
  BpeVocabulary v;
  v.source = "tokenizer.json";
  v.pre = t.pre;
  for (const auto& [left, right] : t.merges) v.merges.push_back(left + " " + right);
  take_tokens(t, v);
  return v;
}

// Gemma 4's. A token that is found after spaces were marked is found in the text, too; one that is found before is not,
// where its own spaces are marked: merges make it.
SpmVocabulary ranked_vocabulary(const TokenizerJson& t, std::vector<std::string>& warnings) {
  check(!t.add_space_prefix, "tokenizer.json: a space before the text is not supported in Gemma 4");
  SpmVocabulary v;
  v.source = "tokenizer.json";
  v.model = SpmModel::ranked;
  v.add_space_prefix = false;
  take_tokens(t, v);
  for (const AddedToken& token : t.added) {
    const auto at = size_t(token.id);
    if (is_shown_in_gemma4(token.text)) v.types[at] = int32_t(TokenType::user_defined);
    if (token.special || token.normalized || with_spaces(token.text) == token.text) continue;
    v.tokens[at] = token.text, v.types[at] = int32_t(TokenType::normal);
  }
  size_t mixed = 0;
  for (const auto& [left, right] : t.merges) {
    if ((left + right).find(' ') != left.npos) continue;  // no text has one: it is marked
    v.merges.push_back(left + " " + right);
    mixed += (left.back() == '\n') != (right.front() == '\n');
  }
  if (mixed > 0 && !t.cuts_lines)
    warnings.push_back(fmt::format(
        "{} merges join a line break with other text, which toy and llama.cpp do not; texts may get other ids", mixed));
  return v;
}

// A piece's score is the rank of the merges that make it. They follow each other where SentencePiece made the file;
// where they do not, scores cannot say the order.
SpmVocabulary spm_vocabulary(const TokenizerJson& t) {
  SpmVocabulary v;
  v.source = "tokenizer.json";
  check(!t.cuts_lines, "tokenizer.json: cutting texts at line breaks is supported in Gemma 4 only");
  v.add_space_prefix = t.add_space_prefix;
  take_tokens(t, v);
  std::unordered_map<std::string, float> ranks;
  std::string last;
  for (const auto& [left, right] : t.merges) {
    const std::string whole = left + right;
    if (whole == last) continue;
    check(ranks.emplace(whole, float(ranks.size())).second,
          "tokenizer.json: merges that make '{}' are not together, so SentencePiece did not make them; not supported",
          whole);
    last = whole;
  }
  for (const std::string& token : v.tokens) {
    const auto rank = ranks.find(token);
    v.scores.push_back(rank == ranks.end() ? -1e9f : -rank->second);
  }
  return v;
}

SpmVocabulary unigram_vocabulary(const TokenizerJson& t) {
  SpmVocabulary v;
  v.source = "tokenizer.json";
  v.model = SpmModel::unigram;
  v.add_space_prefix = t.add_space_prefix, v.remove_extra_whitespaces = true;
  v.chars_map = t.chars_map;
  take_tokens(t, v);
  v.scores = t.scores;
  return v;
}

std::string bytes_of(const std::string& path) {
  if (!fs::exists(path)) return "";
  const MappedFile file = MappedFile::open(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

TokenizerFiles TokenizerFiles::open(const std::string& folder, const Config& config) {
  const auto file = [&](const char* name) { return Config::open_if_there(folder + "/" + name); };
  TokenizerFiles files;
  files.folder = folder, files.config = config;
  files.tokenizer_config = file("tokenizer_config.json");
  files.special_tokens_map = file("special_tokens_map.json");
  files.added_tokens = file("added_tokens.json");
  files.generation_config = file("generation_config.json");
  if (const std::string path = folder + "/tokenizer.json"; fs::exists(path)) files.tokenizer_json = Config::open(path);
  files.tokenizer_model = bytes_of(folder + "/tokenizer.model");
  files.vocab_txt = bytes_of(folder + "/vocab.txt");
  return files;
}

std::string TokenizerFiles::special(const std::string& name) const {
  for (const Config* file : {&tokenizer_config, &special_tokens_map}) {
    const json* value = file->find(name);
    if (!value) continue;
    return value->is_object() ? Config(*value, file->path()).text("content", "") : file->text(name, "");
  }
  return "";
}

std::shared_ptr<const Tokenizer> read_tokenizer(const TokenizerFiles& files, int64_t vocab,
                                                std::vector<std::string>& warnings) {
  if (is_wordpiece(files)) return read_wordpiece(files, vocab);
  const bool has_model = !files.tokenizer_model.empty();
  std::optional<TokenizerJson> file;
  if (files.tokenizer_json) try {
      file = read_tokenizer_json(*files.tokenizer_json, vocab);
    } catch (const Error&) {
      if (!has_model) throw;  // else it says the same
    }
  if (file && file->unigram && has_model) file.reset();
  std::vector<AddedToken> added = added_tokens(files, file ? file->added : std::vector<AddedToken>());
  const std::vector<std::string> rowless = take_rowless(vocab, added, warnings);
  warn_of_flags(added, warnings);
  if (file) take_added(added, *file, warnings);
  if (file && file->byte_level) {
    BpeVocabulary v = byte_level_vocabulary(*file);
    complete(files, &*file, vocab, rowless, v, warnings);
    return std::make_shared<const BpeTokenizer>(std::move(v));
  }
  if (file && files.config.text("model_type", "").starts_with("gemma4")) {
    SpmVocabulary v = ranked_vocabulary(*file, warnings);
    complete(files, &*file, vocab, rowless, v, warnings);
    v.add_bos = v.bos.has_value();  // tokenizer.json leaves it to chat templates
    return std::make_shared<const SpmTokenizer>(std::move(v));
  }
  if (!file && !has_model) {
    warnings.push_back("there is neither tokenizer.json nor tokenizer.model; the model takes token ids, but no text");
    return nullptr;
  }
  SpmVocabulary v = has_model       ? parse_spm_model(files.tokenizer_model, files.folder + "/tokenizer.model")
                    : file->unigram ? unigram_vocabulary(*file)
                                    : spm_vocabulary(*file);
  if (has_model) add(added, true, v);
  complete(files, file ? &*file : nullptr, vocab, rowless, v, warnings);
  v.scores.resize(v.tokens.size(), v.model == SpmModel::unigram ? 0.0f : -1e9f);
  return std::make_shared<const SpmTokenizer>(std::move(v));
}

std::shared_ptr<const Tokenizer> write_tokenizer_keys(const TokenizerFiles& files, int64_t vocab, gguf::Writer& writer,
                                                      std::vector<std::string>& warnings) {
  auto tokenizer = read_tokenizer(files, vocab, warnings);
  if (!tokenizer) {
    writer.set("tokenizer.ggml.model", std::string("none"));
    return nullptr;
  }
  tokenizer->save(writer);
  write_chat_templates(read_chat_templates(files.folder, files.tokenizer_config), writer);
  return tokenizer;
}

}  // namespace toy::hf

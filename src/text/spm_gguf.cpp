// SentencePiece vocabularies in GGUF, under the keys that llama.cpp reads (llama-vocab.cpp, llama_vocab::impl::load):
// tokenizer.ggml.model is "llama" for BPE and "t5" for unigram.
#include "text/spm.h"
#include "toy/base/error.h"

namespace toy {
namespace {

/// Key of a special id, its values in a BPE and in a unigram file that does not name it (llama-vocab.cpp; -1: none),
/// and where it goes.
struct SpecialId {
  const char* key;
  int32_t otherwise_bpe, otherwise_unigram;
  std::optional<int32_t> SpmVocabulary::*member;
};
constexpr std::array<SpecialId, 3> kSpecialIds = {{
    {"tokenizer.ggml.bos_token_id", 1, -1, &SpmVocabulary::bos},
    {"tokenizer.ggml.eos_token_id", 2, 1, &SpmVocabulary::eos},
    {"tokenizer.ggml.unknown_token_id", 0, 2, &SpmVocabulary::unknown},
}};
constexpr const char* kCharsMapKey = "tokenizer.ggml.precompiled_charsmap";

/// Bytes are written as uint8, which llama.cpp reads; its converter has written int8, too.
std::string get_chars_map(const gguf::File& file) {
  const auto found = file.metadata().find(kCharsMapKey);
  if (found == file.metadata().end()) return "";
  if (const auto* array = std::get_if<gguf::Array>(&found->second)) {
    if (const auto* bytes = std::get_if<std::vector<uint8_t>>(array)) return {bytes->begin(), bytes->end()};
    if (const auto* bytes = std::get_if<std::vector<int8_t>>(array)) return {bytes->begin(), bytes->end()};
  }
  fail("{}: {} is not an array of uint8 or int8", file.path(), kCharsMapKey);
}

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

void SpmTokenizer::save(gguf::Writer& writer) const {
  const SpmVocabulary& v = vocabulary_;
  writer.set("tokenizer.ggml.model", gguf::Value(std::string(v.model == SpmModel::bpe ? "llama" : "t5")));
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
  if (!v.chars_map.empty()) {
    writer.set(kCharsMapKey, gguf::Value(gguf::Array(std::vector<uint8_t>(v.chars_map.begin(), v.chars_map.end()))));
  }
}

std::shared_ptr<const Tokenizer> load_spm(const gguf::File& file, SpmModel model) {
  const bool bpe = model == SpmModel::bpe;
  SpmVocabulary v;
  v.model = model;
  v.source = file.path();
  v.tokens = file.get_strings("tokenizer.ggml.tokens");
  const size_t n = v.tokens.size();
  check(n > 0, "{}: tokenizer.ggml.tokens is empty", v.source);
  for (const SpecialId& special : kSpecialIds) {
    const int32_t otherwise = bpe ? special.otherwise_bpe : special.otherwise_unigram;
    if (file.has(special.key)) {
      const uint32_t id = file.get_u32(special.key);
      check(id < n, "{}: {} is {}, outside the vocabulary of {} tokens", v.source, special.key, id, n);
      v.*special.member = int32_t(id);
    } else if (otherwise >= 0 && size_t(otherwise) < n) {
      v.*special.member = otherwise;
    }
  }
  check(bpe || file.has("tokenizer.ggml.scores"), "{}: tokenizer.ggml.scores is missing, which a unigram model needs",
        v.source);
  // Without scores all merges are equal and the leftmost goes first, as in llama.cpp.
  v.scores = file.has("tokenizer.ggml.scores") ? file.get_f32s("tokenizer.ggml.scores") : std::vector<float>(n);
  v.types = file.has("tokenizer.ggml.token_type") ? file.get_i32s("tokenizer.ggml.token_type") : guess_types(v);
  v.add_bos = file.get_bool("tokenizer.ggml.add_bos_token", bpe && v.bos.has_value());
  v.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", !bpe && v.eos.has_value());
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", bpe);
  v.remove_extra_whitespaces = file.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  v.chars_map = get_chars_map(file);
  return std::make_shared<const SpmTokenizer>(std::move(v));
}

}  // namespace toy

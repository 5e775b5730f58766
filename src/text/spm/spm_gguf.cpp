// SentencePiece vocabularies in GGUF, under the keys that llama.cpp reads (llama-vocab.cpp, llama_vocab::impl::load):
// tokenizer.ggml.model is "llama" for BPE, "t5" for unigram and "gemma4" for BPE with ranked merges.
#include <algorithm>

#include "text/spm/spm.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr const char* kCharsMapKey = "tokenizer.ggml.precompiled_charsmap";

constexpr const char* kRankedMergesKey = "tokenizer.ggml.merges";
constexpr const char* kPreKey = "tokenizer.ggml.pre";
constexpr std::string_view kSarvam = "sarvam-moe";

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

// But for Sarvam's, llama.cpp begins every prompt with bos, whatever the file says: the first files said no, by
// mistake.
std::shared_ptr<const Tokenizer> load_ranked(const gguf::File& file) {
  SpmVocabulary v;
  v.model = SpmModel::ranked;
  read_vocabulary(file, {}, v);
  if (is_ranked_spm(file)) v.pre = file.get_string(kPreKey);
  if (v.pre != kSarvam) v.add_bos = v.bos.has_value();
  v.add_space_prefix = false;
  v.merges = file.get_strings(kRankedMergesKey);
  return std::make_shared<const SpmTokenizer>(std::move(v));
}

}  // namespace

void SpmTokenizer::save(gguf::Writer& writer) const {
  const SpmVocabulary& v = vocabulary_;
  if (v.model == SpmModel::ranked) {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string(v.pre.empty() ? "gemma4" : "gpt2")));
    if (!v.pre.empty()) writer.set(kPreKey, gguf::Value(v.pre));
    save_vocabulary(v, writer);
    writer.set(kRankedMergesKey, gguf::Value(gguf::Array(v.merges)));
    writer.set("tokenizer.ggml.add_space_prefix", gguf::Value(false));
    return;
  }
  writer.set("tokenizer.ggml.model", gguf::Value(std::string(v.model == SpmModel::bpe ? "llama" : "t5")));
  writer.set("tokenizer.ggml.pre", gguf::Value(std::string("default")));
  save_vocabulary(v, writer, v.scores);
  writer.set("tokenizer.ggml.add_space_prefix", gguf::Value(v.add_space_prefix));
  if (v.remove_extra_whitespaces) writer.set("tokenizer.ggml.remove_extra_whitespaces", gguf::Value(true));
  if (!v.chars_map.empty()) {
    writer.set(kCharsMapKey, gguf::Value(gguf::Array(std::vector<uint8_t>(v.chars_map.begin(), v.chars_map.end()))));
  }
}

bool is_ranked_spm(const gguf::File& file) {
  constexpr std::string_view kNames[] = {"gemma4", "granite-embed-multi-311m", kSarvam};
  return file.get_string("tokenizer.ggml.model", "none") == "gpt2" &&
         std::ranges::find(kNames, file.get_string(kPreKey, "default")) != std::end(kNames);
}

std::shared_ptr<const Tokenizer> load_spm(const gguf::File& file, SpmModel model) {
  if (model == SpmModel::ranked) return load_ranked(file);
  const bool bpe = model == SpmModel::bpe;
  SpmVocabulary v;
  v.model = model;
  read_vocabulary(file,
                  bpe ? VocabularyDefaults{.bos = 1, .eos = 2, .unknown = 0, .add_bos = true}
                      : VocabularyDefaults{.eos = 1, .unknown = 2, .add_eos = true},
                  v);
  check(bpe || file.has("tokenizer.ggml.scores"), "{}: tokenizer.ggml.scores is missing, which a unigram model needs",
        v.source);
  // Without scores all merges are equal and the leftmost goes first, as in llama.cpp.
  v.scores =
      file.has("tokenizer.ggml.scores") ? file.get_f32s("tokenizer.ggml.scores") : std::vector<float>(v.tokens.size());
  v.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", bpe);
  v.remove_extra_whitespaces = file.get_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  v.chars_map = get_chars_map(file);
  return std::make_shared<const SpmTokenizer>(std::move(v));
}

}  // namespace toy

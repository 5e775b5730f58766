// One token a byte. In GGUF it is byte-level BPE ("gpt2") with an empty list of merges: llama.cpp then splits
// a text into its bytes and merges nothing. (llama.cpp refuses a gpt2 vocabulary without the merges key, but
// an empty array is fine. Texts that are not UTF-8 it cannot take: it reads U+FFFD for bad bytes, and some
// end it.)
#include "text/byte_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "text/bpe/byte_level.h"
#include "toy/base/checksum.h"
#include "toy/base/error.h"
#include "toy/text/tokenizer.h"

namespace toy {
namespace {

constexpr int32_t kByteTokens = 256;

// llama.cpp takes bos = eos = 11 for a gpt2 vocabulary that names none, and an id outside the vocabulary does
// not switch them off: generation would stop at byte 11, a vertical tab. Byte 255 occurs in no UTF-8 text, so
// it does no harm there. Neither is ever added to a prompt (add_bos_token and add_eos_token are false), and
// we ourselves have no such tokens.
constexpr uint32_t kStandInForEos = 255;

// Without merges the pre-tokenizer cannot matter to encoding. But "gpt-2" makes llama_detokenize drop spaces
// before punctuation (clean_spaces in llama-vocab.cpp: "a ." becomes "a."), and "qwen2" does not.
constexpr std::string_view kPreTokenizer = "qwen2";

constexpr int32_t kNormalToken = 1;  // LLAMA_TOKEN_TYPE_NORMAL

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "bytes"; }
  int32_t vocab_size() const override { return kByteTokens; }

  size_t encode_part(std::string_view text, bool, EncodePlace& place, std::vector<int32_t>& ids,
                     EncodeOptions) const override {
    std::transform(text.begin(), text.end(), std::back_inserter(ids), [](char c) { return int32_t(uint8_t(c)); });
    place.bytes += text.size();
    return text.size();
  }
  uint64_t fingerprint() const override { return xxh64("bytes"); }
  std::string token_bytes(int32_t id) const override { return std::string(1, byte_of(id)); }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text(ids.size(), '\0');
    std::transform(ids.begin(), ids.end(), text.begin(), [](int32_t id) { return byte_of(id); });
    return text;
  }

  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return std::nullopt; }
  std::vector<int32_t> end_of_generation() const override { return {}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }

  void save(gguf::Writer& writer) const override {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < kByteTokens; ++byte) tokens.push_back(byte_level_name(uint8_t(byte)));
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
    writer.set("tokenizer.ggml.pre", gguf::Value(std::string(kPreTokenizer)));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(std::move(tokens))));
    writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(std::vector<int32_t>(kByteTokens, kNormalToken))));
    writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(std::vector<std::string>())));
    writer.set("tokenizer.ggml.bos_token_id", gguf::Value(kStandInForEos));
    writer.set("tokenizer.ggml.eos_token_id", gguf::Value(kStandInForEos));
    writer.set("tokenizer.ggml.add_bos_token", gguf::Value(false));
    writer.set("tokenizer.ggml.add_eos_token", gguf::Value(false));
  }

 private:
  static char byte_of(int32_t id) {
    check(id >= 0 && id < kByteTokens, "token id {} is outside the vocabulary of {} tokens", id, kByteTokens);
    return char(uint8_t(id));
  }
};

}  // namespace

bool are_byte_tokens(std::span<const std::string> tokens) {
  if (tokens.size() != size_t(kByteTokens)) return false;
  for (int byte = 0; byte < kByteTokens; ++byte) {
    if (tokens[size_t(byte)] != byte_level_name(uint8_t(byte))) return false;
  }
  return true;
}

std::shared_ptr<const Tokenizer> make_byte_tokenizer() { return std::make_shared<const ByteTokenizer>(); }

}  // namespace toy

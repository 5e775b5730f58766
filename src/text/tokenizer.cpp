// Which tokenizer: from a file, or from the words of a command line.
#include "toy/text/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "text/byte_tokenizer.h"
#include "text/spm.h"
#include "toy/base/error.h"
#include "toy/formats/mapped_file.h"

namespace toy {
namespace {

constexpr std::string_view kAcceptedSpecs =
    "accepted are \"bytes\", \"spm:V\" and \"unigram:V\", V being the number of tokens, such as spm:512";

bool is_byte_level(const gguf::File& file) {
  const bool merges = file.has("tokenizer.ggml.merges") && !file.get_strings("tokenizer.ggml.merges").empty();
  return !merges && are_byte_tokens(file.get_strings("tokenizer.ggml.tokens"));
}

}  // namespace

std::string unsupported_tokenizer(const gguf::File& file) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab" || model == "llama" || model == "t5") return {};
  if (model != "gpt2") return fmt::format("its tokenizer '{}' is not supported", model);
  return is_byte_level(file) ? "" : "its tokenizer 'gpt2' (byte-level BPE) is not supported";
}

std::shared_ptr<const Tokenizer> load_tokenizer(const gguf::File& file) {
  const std::string unsupported = unsupported_tokenizer(file);
  check(unsupported.empty(), "{}: {}, only {}", file.path(), unsupported, kSupportedTokenizers);
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "llama") return load_spm(file, SpmModel::bpe);
  if (model == "t5") return load_spm(file, SpmModel::unigram);
  return model == "gpt2" ? make_byte_tokenizer() : nullptr;
}

std::shared_ptr<const Tokenizer> load_spm_model(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::make_shared<const SpmTokenizer>(parse_spm_model(text, name));
}

std::shared_ptr<const Tokenizer> load_tokenizer_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::span<const std::byte> bytes = file.bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (start != "GGUF") {
    // A ModelProto begins with the key of one of its fields 1 to 5, all of wire type 2; the library writes 1 first.
    const uint8_t key = uint8_t(start[0]);
    check(key % 8 == 2 && key >= 0x0A && key <= 0x2A, "{}: neither a GGUF file nor a SentencePiece .model file", path);
    return load_spm_model(bytes, path);
  }
  auto tokenizer = load_tokenizer(gguf::File::open(path));
  check(tokenizer != nullptr, "{}: the file has no tokenizer", path);
  return tokenizer;
}

std::shared_ptr<const Tokenizer> make_tokenizer(std::string_view spec, std::string_view corpus) {
  if (spec == "bytes") return make_byte_tokenizer();
  const size_t colon = spec.find(':');
  const std::string_view kind = spec.substr(0, colon);
  check(colon != spec.npos && (kind == "spm" || kind == "unigram"), "unknown tokenizer \"{}\": {}", spec,
        kAcceptedSpecs);
  const std::string_view number = spec.substr(colon + 1);
  SpmTrainOptions options;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.vocab_size);
  check(error != std::errc::result_out_of_range, "tokenizer \"{}\": no vocabulary has {} tokens; {}", spec, number,
        kAcceptedSpecs);
  check(error == std::errc() && end == number.data() + number.size(), "tokenizer \"{}\": \"{}\" is not a number; {}",
        spec, number, kAcceptedSpecs);
  return kind == "spm" ? train_spm(corpus, options) : train_unigram(corpus, options);
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  if (tokenizer.adds_bos() && tokenizer.bos()) ids.insert(ids.begin(), *tokenizer.bos());
  return ids;
}

}  // namespace toy

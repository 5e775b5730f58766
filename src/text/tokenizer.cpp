// Which tokenizer: from a file, or from the words of a command line.
#include "toy/text/tokenizer.h"

#include <charconv>

#include "text/byte_tokenizer.h"
#include "text/spm.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr std::string_view kAcceptedSpecs =
    "accepted are \"bytes\" and \"spm:V\", V being the number of tokens, such as spm:512";

std::unique_ptr<Tokenizer> load_byte_level(const gguf::File& file) {
  const bool merges = file.has("tokenizer.ggml.merges") && !file.get_strings("tokenizer.ggml.merges").empty();
  check(!merges && are_byte_tokens(file.get_strings("tokenizer.ggml.tokens")),
        "{}: tokenizer.ggml.model is \"gpt2\": byte-level BPE is not supported yet (only its form without "
        "merges, 256 "
        "tokens in the order of the bytes)",
        file.path());
  return make_byte_tokenizer();
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const gguf::File& file) {
  const std::string model = file.get_string("tokenizer.ggml.model", "none");
  if (model == "none" || model == "no_vocab") return nullptr;
  if (model == "llama") return load_spm(file);
  if (model == "gpt2") return load_byte_level(file);
  fail("{}: tokenizer.ggml.model \"{}\" is not supported (supported: \"llama\", and \"gpt2\" for bytes)", file.path(),
       model);
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view spec, std::string_view corpus) {
  if (spec == "bytes") return make_byte_tokenizer();
  constexpr std::string_view kSpm = "spm:";
  check(spec.starts_with(kSpm), "unknown tokenizer \"{}\": {}", spec, kAcceptedSpecs);
  const std::string_view number = spec.substr(kSpm.size());
  SpmTrainOptions options;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), options.vocab_size);
  check(error == std::errc() && end == number.data() + number.size(), "tokenizer \"{}\": \"{}\" is not a number; {}",
        spec, number, kAcceptedSpecs);
  return train_spm(corpus, options);
}

}  // namespace toy

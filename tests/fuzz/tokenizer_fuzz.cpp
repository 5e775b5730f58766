// libFuzzer: the vocabulary of any GGUF file is either refused with an Error or gives a tokenizer that can be used: a
// text in parts gives the ids of the whole, and comes back where the kind promises it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "../formats/gguf_raw.h"
#include "toy/base/error.h"
#include "toy/formats/gguf.h"
#include "toy/text/tokenizer.h"

namespace {

using namespace toy;

void require(bool ok) {
  if (!ok) std::abort();
}

void use(const Tokenizer& tokenizer, bool has_unknown, std::string_view text, EncodeOptions options) {
  const std::vector<int32_t> ids = tokenizer.encode(text, options);
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size());
  const std::string back = tokenizer.decode(ids);
  const bool lossy =
      (tokenizer.kind() != "bpe" && tokenizer.kind() != "gemma4") || options.parse_special || has_unknown;
  require(lossy || back == text);
  EncodeStream stream(tokenizer, 8, options);
  std::vector<int32_t> in_parts;
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(5, text.size()))) stream.push(text.substr(0, 5), in_parts);
  stream.finish(in_parts);
  require(in_parts == ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const gguf::testing::Aligned aligned({reinterpret_cast<const char*>(data), size});
  // Some text from the end of the file, where tokens are.
  const std::string_view end(reinterpret_cast<const char*>(data) + size - std::min<size_t>(size, 200),
                             std::min<size_t>(size, 200));
  try {
    const gguf::File file = gguf::File::parse(aligned.span(), "fuzz.gguf");
    const auto tokenizer = load_tokenizer(file);
    if (!tokenizer) return 0;
    tokenizer->fingerprint();
    for (const int32_t id : tokenizer->end_of_generation()) tokenizer->token_bytes(id);
    for (const std::string_view text : {end, std::string_view("<s>a b  ab1\r\n\xC3\xA9's <|x|>")}) {
      for (const bool special : {false, true}) {
        try {
          use(*tokenizer, file.has("tokenizer.ggml.unknown_token_id"), text, {special});
        } catch (const EncodeError& e) {  // a vocabulary may lack bytes
          require(e.offset() < text.size());
        }
      }
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

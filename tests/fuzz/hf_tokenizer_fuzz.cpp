// libFuzzer: any tokenizer files are either refused with an Error or give a tokenizer that can be used: its ids are in
// the vocabulary, and a text in parts gives the ids of the whole. The input is one JSON object with the files by name,
// and the rows of the embedding as "vocab".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../hf/files_in_json.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace {

using namespace toy;

void require(bool ok) {
  if (!ok) std::abort();
}

void use(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) try {
  const std::vector<int32_t> ids = tokenizer.encode(text, options);
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size());
  tokenizer.decode(ids);
  EncodeStream stream(tokenizer, 8, options);
  std::vector<int32_t> in_parts;
  for (; !text.empty(); text.remove_prefix(std::min<size_t>(5, text.size()))) stream.push(text.substr(0, 5), in_parts);
  stream.finish(in_parts);
  require(in_parts == ids);
} catch (const EncodeError& e) {  // a vocabulary may lack bytes
  require(e.offset() < 1000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view text = input.substr(size - std::min<size_t>(size, 200));
  try {
    const hf::Config all(read_json<nlohmann::json>("fuzz", input), "fuzz");
    std::vector<std::string> warnings;
    const auto tokenizer =
        hf::read_tokenizer(testing::files_in_json(all), std::min<int64_t>(all.integer("vocab", 300), 5000), warnings);
    if (!tokenizer) return 0;
    require(tokenizer->vocab_size() > 0);
    for (const int32_t id : tokenizer->end_of_generation()) tokenizer->token_bytes(id);
    for (const bool special : {false, true})
      for (const std::string_view t : {text, std::string_view(), std::string_view("<s>a b  ab1\r\n\xC3\xA9's <|x|>")})
        use(*tokenizer, t, {special});
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

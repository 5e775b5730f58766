// libFuzzer: any bytes are either refused with an Error or give a tokenizer that can be used, and its text comes back
// where nothing is normalized and there is a token for every byte.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "text/spm/spm.h"
#include "toy/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  // Some text from the end of the file: pieces are long where lengths are, and the time goes with both.
  const std::string_view text = model.substr(size - std::min<size_t>(size, 400));
  try {
    const SpmVocabulary v = parse_spm_model(model, "fuzz.model");
    const bool lossless = !v.remove_extra_whitespaces && v.chars_map.empty() && v.tokens.size() > 256;
    const SpmTokenizer tokenizer(v);
    for (const std::string_view t : {text, std::string_view("a b  ab\n\xC3\xA9")}) {
      const std::string back = tokenizer.decode(tokenizer.encode(t));
      bool bytes = false;
      for (const int32_t type : v.types) bytes |= type == int32_t(TokenType::byte);
      if (lossless && bytes && back != t) std::abort();
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

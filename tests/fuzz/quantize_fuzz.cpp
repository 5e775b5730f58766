// libFuzzer: any text is either refused with an Error as a rule of `toy quantize --tensor` and as a mix, or is one; a
// rule fits names in a bounded time.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "toy/base/error.h"
#include "toy/base/glob.h"
#include "toy/formats/requantize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto [pattern, type] = gguf::parse_type_rule(text);
    if (pattern.empty() || type == DType::f64 || type == DType::i32) std::abort();
    for (const char* name :
         {"token_embd.weight", "blk.10.ffn_down_exps.weight", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"})
      matches(pattern, name);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) std::abort();
  }
  return 0;
}

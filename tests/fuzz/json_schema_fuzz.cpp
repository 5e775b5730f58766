// libFuzzer: any schema is either refused with an Error or gives masks in bounded time. The first byte says how long a
// text is, the rest is the schema.
#include <nlohmann/json.hpp>

#include "fuzz/grammar_fuzz.h"
#include "toy/base/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  return toy::fuzz_grammar(
      data[0] % 40, [&] { return toy::json_schema_grammar(toy::read_json<nlohmann::ordered_json>("schema", text)); });
}

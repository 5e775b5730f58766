// libFuzzer: any grammar is either refused with an Error or gives masks in bounded time. The first byte says how long a
// text is, the rest is the grammar.
#include <cstdio>
#include <cstdlib>

#include "fuzz/grammar_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  return toy::fuzz_grammar(data[0] % 40, [&] { return toy::parse_gbnf(text); });
}

// libFuzzer: any bytes are either refused with an Error or give a file of which every byte can be read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../formats/gguf_raw.h"
#include "toy/base/error.h"
#include "toy/formats/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy::gguf;
  const testing::Aligned aligned({reinterpret_cast<const char*>(data), size});
  try {
    const uint64_t sum = testing::read_everything(File::parse(aligned.span(), "fuzz.gguf"));
    static volatile uint64_t sink;
    sink = sum;
  } catch (const toy::Error& e) {
    if (e.code() != toy::ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

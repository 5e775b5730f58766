// libFuzzer: any bytes are either refused with an Error or give a file of which every byte can be read.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../formats/safetensors_bytes.h"
#include "testing/aligned.h"
#include "toy/base/error.h"
#include "toy/formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const testing::Aligned aligned({reinterpret_cast<const char*>(data), size});
  try {
    const uint64_t sum = testing::sum_of_bytes(safetensors::File::parse(aligned.span(), "fuzz.safetensors"));
    static volatile uint64_t sink;
    sink = sum;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}

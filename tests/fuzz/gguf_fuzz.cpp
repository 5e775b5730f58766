// libFuzzer: any bytes are either refused with an Error or give a file of which every byte can be read, and an imatrix.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "../formats/gguf_raw.h"
#include "toy/base/error.h"
#include "toy/formats/gguf.h"
#include "toy/formats/imatrix.h"

namespace {

template <class F>
void accept_or_refuse(F&& f) {
  try {
    static volatile uint64_t sink;
    sink = sink + f();
  } catch (const toy::Error& e) {
    if (e.code() != toy::ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy::gguf;
  const testing::Aligned aligned({reinterpret_cast<const char*>(data), size});
  accept_or_refuse([&] { return testing::read_everything(File::parse(aligned.span(), "fuzz.gguf")); });
  accept_or_refuse([&] { return parse_imatrix(aligned.span(), "fuzz.imatrix").columns.size(); });
  return 0;
}

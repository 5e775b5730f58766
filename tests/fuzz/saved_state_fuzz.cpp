// libFuzzer: any bytes are refused, or are a state that a sequence can continue.
#include "saved_state_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  toy::fuzz::saved_state({reinterpret_cast<const char*>(data), size});
  return 0;
}

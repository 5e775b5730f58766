// libFuzzer: any text in any form of calls gives the same text and calls from one piece as byte by byte, loses nothing
// of a text without calls, and names only functions that there are.
#include "fuzz/tool_calls_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  toy::dialog::fuzz::tool_calls(data, size);
  return 0;
}

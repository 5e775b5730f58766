// libFuzzer: any bytes are a manifest that names a blob, which is one name in a folder, or none.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "find/catalog.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string blob = toy::catalog::ollama_blob({reinterpret_cast<const char*>(data), size});
  if (!blob.empty() && (blob.size() != 71 || blob.find_first_of("/.") != blob.npos)) std::abort();
  return 0;
}

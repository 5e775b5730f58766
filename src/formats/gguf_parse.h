// Bytes of a GGUF file -> metadata and tensors, with every check there is. The one place that trusts nothing.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "toy/formats/gguf.h"

namespace toy::gguf {

struct Contents {
  std::map<std::string, Value, std::less<>> metadata;
  std::vector<TensorInfo> tensors;  ///< in file order; `data` points into the bytes parsed
};

/// Throws Error{bad_input}: `file`, the thing, its offset, the reason.
Contents parse_contents(std::span<const std::byte> bytes, const std::string& file);

}  // namespace toy::gguf

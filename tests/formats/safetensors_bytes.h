// Reads all that a safetensors file gives out, so that a sanitizer sees what lies outside of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "toy/formats/safetensors.h"

namespace toy::testing {

inline uint64_t sum_of_bytes(const safetensors::File& file) {
  uint64_t sum = 0;
  for (const auto& [name, view] : file.tensors()) {
    const std::byte* bytes = static_cast<const std::byte*>(view.data);
    for (size_t i = 0; i < view.bytes(); ++i) sum = sum * 31 + uint64_t(bytes[i]);
    sum += name.size() + uint64_t(view.count());
  }
  return sum;
}

}  // namespace toy::testing

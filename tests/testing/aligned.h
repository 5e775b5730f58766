// Bytes in memory as parsers of files want them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace toy::testing {

/// Bytes at an 8-byte boundary and ending where the allocation ends, so that
/// AddressSanitizer sees the first byte read past the end.
class Aligned {
 public:
  explicit Aligned(std::string_view bytes)
      : memory_(std::malloc(std::max<size_t>(bytes.size(), 1))), size_(bytes.size()) {
    if (size_) std::memcpy(memory_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> span() const { return {static_cast<const std::byte*>(memory_.get()), size_}; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_;
};

}  // namespace toy::testing

// Memory that is owned: aligned, zeroed, movable.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace toy {

/// 64-byte aligned, zeroed memory. Large buffers come straight from the system and are touched on first use.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error{failure} with the size when there is no memory.
  explicit Buffer(size_t bytes);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace toy

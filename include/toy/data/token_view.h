// Ids wherever they lie: in memory or in a mapped file, in two bytes or four.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace toy {

/// A read-only view of consecutive ids. Whoever holds them must outlive it.
class TokenView {
 public:
  TokenView() = default;
  /// @{
  /// Of ids in memory.
  TokenView(std::span<const int32_t> ids) : TokenView(ids.data(), 4, int64_t(ids.size())) {}  // NOLINT: as a span would
  TokenView(const std::vector<int32_t>& ids) : TokenView(std::span(ids)) {}                   // NOLINT
  /// @}
  /// `count` ids of `width` bytes, 2 or 4, at `data`, aligned to their width.
  TokenView(const void* data, int width, int64_t count)
      : data_(static_cast<const std::byte*>(data)), width_(width), count_(count) {}

  int64_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  /// Bytes of one id.
  int width() const { return width_; }
  int32_t operator[](int64_t i) const {
    const std::byte* at = data_ + i * width_;
    if (width_ == 4) return *reinterpret_cast<const int32_t*>(at);
    return *reinterpret_cast<const uint16_t*>(at);
  }
  /// Appends ids [first, first + count) to `out`.
  void copy(int64_t first, int64_t count, std::vector<int32_t>& out) const {
    for (int64_t i = first; i < first + count; ++i) out.push_back((*this)[i]);
  }
  /// Ids [first, first + count).
  TokenView part(int64_t first, int64_t count) const { return {data_ + first * width_, width_, count}; }

 private:
  const std::byte* data_ = nullptr;
  int width_ = 4;
  int64_t count_ = 0;
};

}  // namespace toy

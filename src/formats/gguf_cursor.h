// Reads numbers and strings of a GGUF file one after the other and never past its end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "toy/base/error.h"

namespace toy::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read and written by memcpy");

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  const std::string& file() const { return file_; }
  /// What is being read now ("tensor 'x'"), for messages.
  void set_context(std::string context) { context_ = std::move(context); }

  /// Error{bad_input} about the field read last.
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    toy::fail("{}: {} at offset {}: {}", file_, context_, field_, fmt::format(format, std::forward<Args>(args)...));
  }

  template <class T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string read_string(std::string_view what) {
    const auto length = read<uint64_t>(what);
    if (length > remaining())
      fail("{} of {} bytes, but the file has {} left; it is truncated or damaged: copy or download it again", what,
           length, remaining());
    // take() moves the field to the characters.
    return std::string(reinterpret_cast<const char*>(take(size_t(length), what)), size_t(length));
  }

  /// Copies `count` numbers; check_count() first.
  template <class T>
  void read_into(T* out, size_t count, std::string_view what) {
    if (count) std::memcpy(out, take(count * sizeof(T), what), count * sizeof(T));
  }

  /// Before anything is allocated for them: `count` things of at least `least` bytes each fit into the rest.
  void check_count(uint64_t count, size_t least, std::string_view what) const {
    if (count > remaining() / least)
      fail(
          "{} {}, at least {} bytes each, but the file has {} bytes left; it is truncated or damaged: copy or download "
          "it again",
          count, what, least, remaining());
  }

 private:
  const std::byte* take(size_t n, std::string_view what) {
    field_ = position_;
    if (n > remaining())
      fail("the file ends inside {} ({} bytes needed, {} left); it is truncated, copy or download it again", what, n,
           remaining());
    position_ += n;
    return bytes_.data() + field_;
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::string context_ = "header";
  size_t position_ = 0;
  size_t field_ = 0;
};

}  // namespace toy::gguf

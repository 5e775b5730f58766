// Memory between two guard pages: it checks kernels without a sanitizer, at full speed.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>

namespace toy::test {

/// Zeroed bytes, `shift` after a boundary of `alignment`, a power of two. An access at or after the next boundary past
/// their end is a fault, as is one before their first page; intact() finds writes to the bytes between.
class Guarded {
 public:
  explicit Guarded(size_t bytes, size_t alignment = 64, size_t shift = 0)
      : bytes_(bytes), mapped_(round_up(std::max<size_t>(bytes + shift, 1), page())) {
    front_ = mapped_ - round_up(bytes + shift, alignment) + shift;
    void* const all =
        mmap(nullptr, mapped_ + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(all) + page();
    protect(PROT_READ | PROT_WRITE);
    std::memset(begin_, kFill, front_);
    std::memset(data() + bytes_, kFill, mapped_ - front_ - bytes_);
  }
  ~Guarded() { munmap(begin_ - page(), mapped_ + 2 * page()); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::byte* data() const { return begin_ + front_; }
  size_t bytes() const { return bytes_; }
  static size_t page() { return size_t(sysconf(_SC_PAGESIZE)); }
  /// PROT_NONE: an access to the bytes is a fault, too.
  void protect(int how) const {
    if (mprotect(begin_, mapped_, how) != 0) throw std::runtime_error("mprotect failed");
  }
  /// No write hit the bytes before or after them.
  bool intact() const {
    const auto whole = [](const std::byte* p, size_t n) {
      return std::all_of(p, p + n, [](std::byte b) { return b == std::byte(kFill); });
    };
    return whole(begin_, front_) && whole(data() + bytes_, mapped_ - front_ - bytes_);
  }

 private:
  static constexpr int kFill = 0xA5;
  static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

  size_t bytes_, mapped_, front_ = 0;  // front_: bytes of the first page before them
  std::byte* begin_;
};

}  // namespace toy::test

// OpenCL 1.2 has handles of buffers where toy has addresses, so each buffer gets a range of made-up addresses. A kernel
// takes an address as the buffer that it lies in and the bytes before it: sub-buffers, which OpenCL has for that, begin
// only at some addresses, and views begin at any element.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "backend/gpu/opencl/functions.h"

namespace toy::gpu::opencl {

/// For use by several threads.
class Addresses {
 public:
  explicit Addresses(size_t alignment) : alignment_(alignment) {}
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  /// Takes the buffer; returns its first address, a multiple of the alignment.
  void* add(Memory buffer, size_t bytes);
  /// Releases the buffer that begins there.
  void remove(void* first) noexcept;
  /// Bytes of all buffers.
  size_t bytes() const;

  struct Spot {
    Memory buffer = nullptr;
    uint64_t offset = 0;
  };
  /// Where an address lies; nullptr: nowhere.
  Spot find(const void* address) const;

 private:
  struct Range {
    Memory buffer;
    size_t bytes;
  };
  const size_t alignment_;
  mutable std::mutex mutex_;             // of what follows
  uintptr_t next_ = uintptr_t(1) << 40;  // no address is a small number, which would be an offset by mistake
  size_t bytes_ = 0;
  std::map<uintptr_t, Range> ranges_;
};

/// The text of kernels (kernels/dialect.h) whose parameters are buffers and, behind all others, `ulong` offsets in
/// bytes, one for each pointer: KERNEL(f, 64)(GLOBAL float* x, int n) { becomes KERNEL(f, 64)(GLOBAL float* x_buffer,
/// int n, ulong x_offset) { GLOBAL float* x = ...;
std::string with_offsets(std::string text);

}  // namespace toy::gpu::opencl

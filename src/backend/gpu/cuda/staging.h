// Page-locked memory of the host, through which uploads and downloads travel: the GPU copies from it while the host
// goes on.
#pragma once

#include <array>
#include <cstddef>

#include "backend/gpu/cuda/functions.h"

namespace toy::gpu::cuda {

class Staging {
 public:
  /// Its memory is allocated by the first transfer. The context must be current, then and in each call.
  explicit Staging(Stream stream) : stream_(stream) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Queues copies of what `from` holds now.
  void upload(Address to, const void* from, size_t bytes);
  /// Waits for what is queued, then copies.
  void download(void* to, Address from, size_t bytes);

 private:
  // A half of it is filled, piece behind piece, while the other one travels.
  struct Half {
    std::byte* memory = nullptr;
    Event sent = nullptr;
  };
  void prepare();
  void turn();

  Stream stream_;
  std::array<Half, 2> halves_;
  size_t filling_ = 0, used_ = 0;  // the half, and bytes of it
};

}  // namespace toy::gpu::cuda

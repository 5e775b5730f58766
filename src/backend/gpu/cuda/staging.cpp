#include "backend/gpu/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace toy::gpu::cuda {
namespace {

constexpr size_t kHalf = size_t(16) << 20;

}  // namespace

Staging::~Staging() {
  for (const Half& h : halves_) {
    if (h.sent) functions().cuEventDestroy_v2(h.sent);
    if (h.memory) functions().cuMemFreeHost(h.memory);
  }
}

void Staging::prepare() {
  for (Half& h : halves_) {
    if (h.memory) continue;
    void* memory = nullptr;
    check_result(functions().cuMemHostAlloc(&memory, kHalf, 0), "page-locked memory of the host");
    h.memory = static_cast<std::byte*>(memory);
    check_result(functions().cuEventCreate(&h.sent, 0), "an event");
  }
}

// The other half: what it sent last must have arrived. An event that was never recorded does not wait.
void Staging::turn() {
  check_result(functions().cuEventRecord(halves_[filling_].sent, stream_), "upload");
  filling_ = 1 - filling_;
  used_ = 0;
  check_result(functions().cuEventSynchronize(halves_[filling_].sent), "upload");
}

void Staging::upload(Address to, const void* from, size_t bytes) {
  prepare();
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (used_ == kHalf) turn();
    const size_t piece = std::min(bytes, kHalf - used_);
    std::byte* const at = halves_[filling_].memory + used_;
    std::memcpy(at, next, piece);
    check_result(functions().cuMemcpyHtoDAsync_v2(to, at, piece, stream_), "upload");
    used_ = std::min(kHalf, (used_ + piece + 63) / 64 * 64);
    to += piece, next += piece, bytes -= piece;
  }
}

void Staging::download(void* to, Address from, size_t bytes) {
  prepare();
  turn();  // a half that nothing is read from
  auto* next = static_cast<std::byte*>(to);
  for (; bytes > 0;) {
    const size_t piece = std::min(bytes, kHalf);
    std::byte* const at = halves_[filling_].memory;
    check_result(functions().cuMemcpyDtoHAsync_v2(at, from, piece, stream_), "download");
    check_result(functions().cuStreamSynchronize(stream_), "download");
    std::memcpy(next, at, piece);
    from += piece, next += piece, bytes -= piece;
  }
}

}  // namespace toy::gpu::cuda

#include "backend/host_device.h"

#include <cstdint>
#include <cstring>
#include <functional>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "toy/backend/host_kernel.h"
#include "toy/base/clock.h"

namespace toy {
namespace {

// Denormals cost a hundred cycles each and carry nothing here: they are flushed while kernels run, on every thread.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ | (uint64_t(1) << 24)));
  }
  ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  uint64_t before_;
#endif
};

void execute(ExecContext ctx, std::span<const KernelCall> calls, std::span<double> seconds) {
  const FlushDenormals flush;
  const bool timed = !seconds.empty() && ctx.thread == 0;
  double before = timed ? steady_seconds() : 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const KernelCall& c = calls[i];
    ctx.op = c.kernel->op;
    c.kernel->code.as<HostKernel>()(ctx, {c.in, c.out, *c.attrs, static_cast<std::byte*>(c.workspace)});
    ctx.barrier();
    if (timed) {
      const double after = steady_seconds();
      seconds[i] += after - before;
      before = after;
    }
  }
}

}  // namespace

void* HostDevice::allocate(size_t bytes) const {
  Buffer b(bytes);
  void* const memory = b.data();
  memory_.emplace(memory, std::move(b));
  return memory;
}

void HostDevice::release(void* memory) const noexcept { memory_.erase(memory); }

void HostDevice::upload(Place to, const void* from, size_t bytes) const {
  if (bytes > 0) std::memcpy(host(to), from, bytes);
}

void HostDevice::download(void* to, Place from, size_t bytes) const {
  if (bytes > 0) std::memcpy(to, host(from), bytes);
}

void HostDevice::copy(Place to, Place from, size_t bytes) const { upload(to, host(from), bytes); }

void HostDevice::fill(Place to, std::byte value, size_t bytes) const {
  pool_.run([&](int thread) {
    const Range mine = part(int64_t(bytes), thread, pool_.size());
    if (mine.size() > 0) std::memset(host(to) + mine.begin, int(value), size_t(mine.size()));
  });
}

void HostDevice::run(std::span<const KernelCall> calls, std::span<double> seconds) {
  KernelError error;
  const auto one = [&](int thread) {
    execute({{thread, pool_.size(), pool_.size() > 1 ? &pool_ : nullptr}, &error, {}}, calls, seconds);
  };
  pool_.run(std::ref(one));  // a copy of it would be allocated
  if (error.fault != KernelFault::none) throw KernelFailure(error.fault, error.op, error.index, error.value);
}

}  // namespace toy

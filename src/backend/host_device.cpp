#include "backend/host_device.h"

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "backend/flush_denormals.h"
#include "toy/backend/host_kernel.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy {
namespace {

// The calls, with views of its own.
class HostProgram final : public Program {
 public:
  HostProgram(std::string_view device, std::span<const KernelCall> calls) {
    size_t views = 0;
    for (const KernelCall& c : calls) views += c.in.size() + c.out.size();
    views_.reserve(views);
    steps_.reserve(calls.size());
    for (const KernelCall& c : calls) {
      HostKernel* const kernel = c.kernel->code.as<HostKernel>();
      check(kernel, "device '{}': the kernel for '{}' is of another device; compile for the device that runs the plan",
            device, c.kernel->op);
      const auto in = own(c.in), out = own(c.out);
      steps_.push_back({c.kernel->op, kernel, {in, out, *c.attrs, static_cast<std::byte*>(c.workspace), c.prepared}});
    }
  }

  void run(ExecContext ctx, std::span<double> seconds) const {
    const FlushDenormals flush;
    const bool timed = !seconds.empty() && ctx.thread == 0;
    double before = timed ? steady_seconds() : 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      ctx.op = steps_[i].op;
      steps_[i].kernel(ctx, steps_[i].args);
      ctx.barrier();
      if (timed) {
        const double after = steady_seconds();
        seconds[i] += after - before;
        before = after;
      }
    }
  }

 private:
  struct Step {
    std::string_view op;
    HostKernel* kernel;
    KernelArgs args;
  };
  std::span<const View> own(std::span<const View> views) {
    const size_t first = views_.size();
    views_.insert(views_.end(), views.begin(), views.end());
    return std::span(views_).subspan(first);
  }
  std::vector<View> views_;
  std::vector<Step> steps_;
};

}  // namespace

Device::Memory HostDevice::memory() const { return {total_memory(), available_memory()}; }

void* HostDevice::allocate(size_t bytes) const {
  Buffer b(bytes);
  void* const memory = b.data();
  const std::scoped_lock lock(mutex_);
  memory_.emplace(memory, std::move(b));
  return memory;
}

void HostDevice::release(void* memory) const noexcept {
  const std::scoped_lock lock(mutex_);
  memory_.erase(memory);
}

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

std::unique_ptr<Program> HostDevice::prepare(std::span<const KernelCall> calls) {
  return std::make_unique<HostProgram>(name(), calls);
}

void HostDevice::run(Program& program, std::span<double> seconds) {
  const HostProgram& ready = dynamic_cast<HostProgram&>(program);
  KernelError error;
  const auto one = [&](int thread, int threads) {
    ready.run({{thread, threads, threads > 1 ? &pool_ : nullptr}, &error, {}}, seconds);
  };
  pool_.run_some(std::ref(one));  // a copy of it would be allocated
  if (error.fault != KernelFault::none) throw KernelFailure(error.fault, error.op, error.index, error.value);
}

}  // namespace toy

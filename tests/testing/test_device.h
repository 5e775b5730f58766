// The cpu device for tests, or one with its kernels whose memory the host cannot touch: a GPU without a GPU.
#pragma once

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "backend/forwarding_device.h"
#include "testing/guarded.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"

namespace toy {

/// Runs the cpu's kernels on memory that is inaccessible outside of run(), upload(), download(), copy() and fill(). An
/// access of the host in between is a fault, with a stack trace; so is an access of a kernel past the end.
class ProtectedDevice final : public ForwardingDevice {
 public:
  explicit ProtectedDevice(std::unique_ptr<Device> cpu) : ForwardingDevice(*cpu), cpu_(std::move(cpu)) {
    struct sigaction action = {};
    action.sa_handler = trace;
    action.sa_flags = int(SA_RESETHAND);
    sigaction(SIGSEGV, &action, nullptr);
  }
  ~ProtectedDevice() override { close(); }

  size_t alignment() const override { return 256; }

  void* allocate(size_t bytes) const override {
    auto memory = std::make_unique<test::Guarded>(bytes, alignment());
    memory->protect(PROT_NONE);
    void* const handle = memory->data();
    memory_.emplace(handle, std::move(memory));
    return handle;
  }
  void release(void* memory) const noexcept override {
    memory_.at(memory)->protect(PROT_READ | PROT_WRITE);
    if (!memory_.at(memory)->intact()) {
      std::fputs("protected device: a kernel wrote before or after a buffer\n", stderr);
      std::abort();
    }
    memory_.erase(memory);
  }
  void upload(Place to, const void* from, size_t bytes) const override {
    open(to.memory, [&] { std::memcpy(address(to), from, bytes); });
  }
  void download(void* to, Place from, size_t bytes) const override {
    open(from.memory, [&] { std::memcpy(to, address(from), bytes); });
  }
  void copy(Place to, Place from, size_t bytes) const override {
    open(from.memory, [&] {
      if (to.memory != from.memory) memory_.at(to.memory)->protect(PROT_READ | PROT_WRITE);
      std::memcpy(address(to), address(from), bytes);
      if (to.memory != from.memory) memory_.at(to.memory)->protect(PROT_NONE);
    });
  }
  void fill(Place to, std::byte value, size_t bytes) const override {
    open(to.memory, [&] { std::memset(address(to), int(value), bytes); });
  }
  bool host_visible() const override { return false; }
  std::byte* host(Place) const override { return nullptr; }
  void* address(Place at) const override { return static_cast<std::byte*>(at.memory) + at.offset; }
  // Only this device can look into its programs.
  struct OwnProgram final : Program {
    std::unique_ptr<Program> inside;
  };
  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override {
    for (const KernelCall& c : calls)
      check(reinterpret_cast<uintptr_t>(c.workspace) % alignment() == 0, "protected device: a workspace at {}",
            c.workspace);
    auto own = std::make_unique<OwnProgram>();
    own->inside = cpu_->prepare(calls);
    return own;
  }
  void run(Program& program, std::span<double> seconds = {}) override {
    for (const auto& [handle, memory] : memory_) memory->protect(PROT_READ | PROT_WRITE);
    const auto close_again = [this] {
      for (const auto& [handle, memory] : memory_) memory->protect(PROT_NONE);
    };
    try {
      cpu_->run(*dynamic_cast<OwnProgram&>(program).inside, seconds);
    } catch (...) {
      close_again();
      throw;
    }
    close_again();
  }

 private:
  static void trace(int) {
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    raise(SIGSEGV);
  }
  template <class F>
  void open(void* memory, const F& use) const {
    if (!memory) return;
    memory_.at(memory)->protect(PROT_READ | PROT_WRITE);
    use();
    memory_.at(memory)->protect(PROT_NONE);
  }

  std::unique_ptr<Device> cpu_;
  mutable std::map<void*, std::unique_ptr<test::Guarded>> memory_;
};

/// The cpu device; with TOY_TEST_DEVICE=protected its kernels on protected memory, with TOY_TEST_DEVICE=emulated the
/// kernels of GPUs.
inline std::unique_ptr<Device> make_test_device(int threads = 0) {
  const char* const set = std::getenv("TOY_TEST_DEVICE");
  const std::string_view wanted = set ? set : "";
  if (wanted == "emulated") return make_emulated_device();
  if (wanted != "protected") return make_cpu_device(threads);
  return std::make_unique<ProtectedDevice>(make_cpu_device(threads));
}

}  // namespace toy

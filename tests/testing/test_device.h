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
#include <vector>

#include "backend/forwarding_device.h"
#include "testing/guarded.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"

namespace toy {

/// Runs the cpu's kernels on memory that the host has no address of. What a place and address() say lies in pages that
/// are never accessible: an access of the host is a fault, with a stack trace. prepare() gives the kernels the true
/// addresses, between guard pages, so an access of theirs past the end is a fault, too.
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
    Pages memory{std::make_unique<test::Guarded>(bytes, alignment()),
                 std::make_unique<test::Guarded>(bytes, alignment())};
    memory.shown->protect(PROT_NONE);
    std::byte* const handle = memory.shown->data();
    memory_.emplace(handle, std::move(memory));
    return handle;
  }
  void release(void* memory) const noexcept override {
    if (!memory_.at(static_cast<std::byte*>(memory)).kernels->intact()) {
      std::fputs("protected device: a kernel wrote before or after a buffer\n", stderr);
      std::abort();
    }
    memory_.erase(static_cast<std::byte*>(memory));
  }
  void upload(Place to, const void* from, size_t bytes) const override {
    if (bytes) std::memcpy(of_kernels(address(to)), from, bytes);
  }
  void download(void* to, Place from, size_t bytes) const override {
    if (bytes) std::memcpy(to, of_kernels(address(from)), bytes);
  }
  void copy(Place to, Place from, size_t bytes) const override {
    if (bytes) std::memcpy(of_kernels(address(to)), of_kernels(address(from)), bytes);
  }
  void fill(Place to, std::byte value, size_t bytes) const override {
    if (bytes) std::memset(of_kernels(address(to)), int(value), bytes);
  }
  bool host_visible() const override { return false; }
  std::byte* host(Place) const override { return nullptr; }
  void* address(Place at) const override {  // as a number: an operand without elements may have no memory
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at.memory) + at.offset);
  }
  // Only this device can look into its programs.
  struct OwnProgram final : Program {
    std::unique_ptr<Program> inside;
  };
  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override {
    std::vector<KernelCall> inside(calls.begin(), calls.end());
    std::vector<std::vector<View>> views;
    const auto translated = [&](std::span<const View> shown) {
      std::vector<View> own(shown.begin(), shown.end());
      for (View& v : own) v.data = static_cast<std::byte*>(of_kernels(v.data));
      return std::span<const View>(views.emplace_back(std::move(own)));
    };
    for (KernelCall& c : inside) {
      check(reinterpret_cast<uintptr_t>(c.workspace) % alignment() == 0, "protected device: a workspace at {}",
            c.workspace);
      c.in = translated(c.in);
      c.out = translated(c.out);
      c.workspace = of_kernels(c.workspace);
    }
    auto own = std::make_unique<OwnProgram>();
    own->inside = cpu_->prepare(inside);
    return own;
  }
  void run(Program& program, std::span<double> seconds = {}) override {
    cpu_->run(*dynamic_cast<OwnProgram&>(program).inside, seconds);
  }

 private:
  static void trace(int) {
    void* frames[64];
    backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
    raise(SIGSEGV);
  }
  struct Pages {
    std::unique_ptr<test::Guarded> kernels, shown;
  };
  // Where kernels find what the host knows by a shown address; nullptr stays.
  void* of_kernels(void* shown) const {
    if (!shown) return nullptr;
    auto next = memory_.upper_bound(static_cast<std::byte*>(shown));
    check(next != memory_.begin(), "protected device: {} is in none of its buffers", shown);
    const auto& [begin, memory] = *std::prev(next);
    const size_t offset = size_t(static_cast<std::byte*>(shown) - begin);
    check(offset <= memory.shown->bytes(), "protected device: {} is in none of its buffers", shown);
    return memory.kernels->data() + offset;
  }

  std::unique_ptr<Device> cpu_;
  mutable std::map<std::byte*, Pages> memory_;
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

/// For tests of the steps that the cpu device joins: kernels of GPUs stay one by one.
#define SKIP_WHERE_STEPS_ARE_NOT_JOINED() \
  if (make_test_device(1)->name() == "emulated") GTEST_SKIP() << "this device does not join steps"

}  // namespace toy

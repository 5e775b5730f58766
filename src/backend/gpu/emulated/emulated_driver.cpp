#include "backend/gpu/emulated/emulated_driver.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/flush_denormals.h"
#include "backend/gpu/emulated/texts.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/over_ranks.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy::gpu {
namespace {

// Memory that ends at a page without access, up to the alignment: an access behind it is a fault, and a write to the
// bytes in between is seen when it is released.
class Guarded {
 public:
  Guarded(size_t bytes, size_t alignment) : page_(size_t(sysconf(_SC_PAGESIZE))) {
    const size_t padded = round_up(bytes, alignment);
    bytes_ = bytes, whole_ = round_up(padded, page_) + 2 * page_;
    void* const all = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) fail_internal("out of memory: {} bytes are asked of device emulated", bytes);
    begin_ = static_cast<char*>(all);
    mprotect(begin_ + page_, whole_ - 2 * page_, PROT_READ | PROT_WRITE);
    data_ = begin_ + whole_ - page_ - padded;
    std::memset(data_ + bytes, kFill, padded - bytes);
  }
  ~Guarded() {
    if (begin_) munmap(begin_, whole_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  bool intact() const {
    return std::all_of(data_ + bytes_, begin_ + whole_ - page_, [](char c) { return c == kFill; });
  }

 private:
  static constexpr char kFill = char(0xA5);
  static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
  size_t page_, bytes_ = 0, whole_ = 0;
  char *begin_ = nullptr, *data_ = nullptr;
};

// A kernel's access outside of its buffers, or (a trap of the compiler) at an address that is no multiple of its size:
// says which item it was, and lets the program end as it would have.
void on_fault(int signal) {
  char what[256];
  if (describe_running(what, sizeof what)[0]) {
    char line[384];
    const char* const fault = signal == SIGILL ? "an access that is not aligned" : "an access outside of a buffer";
    const int n = std::snprintf(line, sizeof line, "device emulated: %s: %s\n", what, fault);
    if (write(STDERR_FILENO, line, size_t(n)) < 0) _exit(3);
  }
  raise(signal);
}
void name_faults() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL}) {
    struct sigaction before = {}, action = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;  // someone else's, such as a sanitizer's
    action.sa_handler = on_fault;
    action.sa_flags = int(SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
}

class EmulatedDriver final : public Driver {
 public:
  EmulatedDriver(ItemOrder order, size_t most) : order_(order), most_(most) { name_faults(); }
  std::string_view name() const override { return "emulated"; }
  Device::Memory memory() const override {
    const std::scoped_lock lock(mutex_);
    if (most_ > 0) return {most_, std::max<size_t>(1, most_ - held_)};  // 0 would mean unknown
    return {total_memory(), available_memory()};
  }
  size_t alignment() const override { return 64; }
  void* allocate(size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    if (most_ > 0 && bytes > most_ - held_)
      fail_internal("out of memory: {} bytes are asked of device emulated, and {} are free", bytes, most_ - held_);
    auto memory = std::make_unique<Guarded>(bytes, alignment());
    held_ += bytes;
    void* const data = memory->data();
    memory_.emplace(data, std::move(memory));
    return data;
  }
  void release(void* memory) noexcept override {
    const std::scoped_lock lock(mutex_);
    const auto at = memory_.find(memory);
    if (!at->second->intact()) {
      std::fputs("device emulated: a kernel wrote behind the end of a buffer\n", stderr);
      std::abort();
    }
    held_ -= at->second->bytes();
    memory_.erase(at);
  }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::byte value, size_t bytes) override { std::memset(to, int(value), bytes); }
  void launch(const Launch& launch) override {
    const FlushDenormals flush;
    run_groups(texts()[size_t(launch.kernel)], launch, order_);
  }
  void synchronize() override {}
  bool connects() const override { return true; }
  std::unique_ptr<Communicator> connect(Communicator& ranks, double) override {
    return std::make_unique<OverRanks>(ranks);
  }

 private:
  ItemOrder order_;
  size_t most_;
  mutable std::mutex mutex_;  // of what follows
  size_t held_ = 0;
  std::map<void*, std::unique_ptr<Guarded>> memory_;
};

}  // namespace

std::unique_ptr<Driver> make_emulated_driver(ItemOrder order, size_t memory) {
  return std::make_unique<EmulatedDriver>(order, memory);
}

}  // namespace toy::gpu

namespace toy {

std::unique_ptr<Device> make_emulated_device() {
  const char* const memory = std::getenv("TOY_EMULATED_MEMORY");
  return gpu::make_gpu_device(
      gpu::make_emulated_driver(gpu::ItemOrder::ascending, memory ? parse_bytes("TOY_EMULATED_MEMORY", memory) : 0));
}

}  // namespace toy

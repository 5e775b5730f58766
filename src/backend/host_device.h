// What devices share whose memory is the host's and whose kernels run on a team of its threads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "toy/backend/device.h"
#include "toy/base/threads.h"

namespace toy {

class HostDevice : public Device {
 public:
  /// threads 0: every core.
  explicit HostDevice(int threads) : pool_(threads) {}
  ~HostDevice() override { close(); }

  /// What measures the machine beside a run uses the same threads: others would let these fall asleep.
  ThreadPool& team() { return pool_; }
  int threads() const override { return pool_.size(); }
  int host_threads() const override { return pool_.size(); }
  Memory memory() const override;
  void* allocate(size_t bytes) const override;
  void release(void* memory) const noexcept override;
  void upload(Place to, const void* from, size_t bytes) const override;
  void download(void* to, Place from, size_t bytes) const override;
  void copy(Place to, Place from, size_t bytes) const override;
  void fill(Place to, std::byte value, size_t bytes) const override;
  bool host_visible() const override { return true; }
  // As numbers: where there are no rows, there may be no memory to count from.
  std::byte* host(Place at) const override {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(at.memory) + at.offset);
  }
  void* address(Place at) const override { return host(at); }
  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override;
  void run(Program& program, std::span<double> seconds) override;

 private:
  mutable ThreadPool pool_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::map<void*, Buffer> memory_;
};

}  // namespace toy

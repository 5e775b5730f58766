// A device that hands everything on to another one: what differs is overridden.
#pragma once

#include "toy/backend/device.h"

namespace toy {

class ForwardingDevice : public Device {
 public:
  /// `to` must outlive it.
  explicit ForwardingDevice(Device& to) : to_(to) {}
  ~ForwardingDevice() override { close(); }

  std::string_view name() const override { return to_.name(); }
  DType storage(DType logical) const override { return to_.storage(logical); }
  DType compute() const override { return to_.compute(); }
  bool has_products(DType type) const override { return to_.has_products(type); }
  std::string arithmetic(DType products) const override { return to_.arithmetic(products); }
  std::span<const KernelRecord> kernels() const override { return to_.kernels(); }
  int threads() const override { return to_.threads(); }
  int host_threads() const override { return to_.host_threads(); }
  Memory memory() const override { return to_.memory(); }
  size_t alignment() const override { return to_.alignment(); }
  void* allocate(size_t bytes) const override { return to_.allocate(bytes); }
  void release(void* memory) const noexcept override { to_.release(memory); }
  void upload(Place to, const void* from, size_t bytes) const override { to_.upload(to, from, bytes); }
  void download(void* to, Place from, size_t bytes) const override { to_.download(to, from, bytes); }
  void copy(Place to, Place from, size_t bytes) const override { to_.copy(to, from, bytes); }
  void fill(Place to, std::byte value, size_t bytes) const override { to_.fill(to, value, bytes); }
  bool host_visible() const override { return to_.host_visible(); }
  std::byte* host(Place at) const override { return to_.host(at); }
  void* address(Place at) const override { return to_.address(at); }
  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override { return to_.prepare(calls); }
  void run(Program& program, std::span<double> seconds = {}) override { to_.run(program, seconds); }
  void synchronize() const override { to_.synchronize(); }

 private:
  Device& to_;
};

}  // namespace toy

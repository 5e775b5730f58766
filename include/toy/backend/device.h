// A place to compute: its memory, its kernels, and how it runs them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "toy/backend/kernel.h"
#include "toy/tensor/buffer.h"

namespace toy {

/// Where bytes of a device lie: memory that it allocated, and an offset. Only the device can follow it.
struct Place {
  void* memory = nullptr;
  size_t offset = 0;
  Place operator+(size_t bytes) const { return {memory, offset + bytes}; }
};

/// One call of a kernel. The data of each view is Device::address() of where its elements begin; nullptr: absent.
struct KernelCall {
  const KernelRecord* kernel = nullptr;
  const Attrs* attrs = nullptr;
  std::span<const View> in, out;
  void* workspace = nullptr;
  bool prepared = false;  ///< the workspace is what an earlier call of the same program left (KernelRecord::prepares)
};

/// Calls that a device has made ready to run, in an order and a form that only this device knows. It does not need the
/// calls or their views any more; their kernels, attributes and memory must outlive it. Destroying it waits for its
/// runs.
class Program {
 public:
  virtual ~Program();
};

/// A device owns its memory. The host writes and reads it by upload and download, never while run() works; where the
/// device says that its memory is host_visible(), also through host(). Memory functions are const: they change what a
/// device holds, not what it is. Not for use by several threads at once, but for allocate() and release(): memory is
/// dropped when its owner is, as by Python's collector, whatever another thread does with the device.
class Device {
 public:
  virtual ~Device();
  virtual std::string_view name() const = 0;
  /// How values of a dtype are held: the reference backend keeps every float in f64.
  virtual DType storage(DType logical) const = 0;
  /// The dtype that activations are computed in, as stored.
  virtual DType compute() const = 0;
  /// Can dense products round their operands to this dtype (PlanOptions::products)?
  virtual bool has_products(DType type) const { return type == DType::f32; }
  /// What influences the bits of its results besides its name, with dense products in that dtype: how this processor
  /// rounds, e.g. "fma". Empty if nothing does.
  virtual std::string arithmetic([[maybe_unused]] DType products) const { return {}; }
  virtual std::span<const KernelRecord> kernels() const = 0;
  /// Threads of the host that work on one kernel together.
  virtual int threads() const { return 1; }
  /// Threads of the host for other work with the device's values, such as loading and scoring. Default: one per CPU.
  virtual int host_threads() const;

  /// Bytes of memory; 0 where that is unknown.
  struct Memory {
    size_t total = 0, free = 0;
  };
  /// The memory that allocate() draws from.
  virtual Memory memory() const = 0;
  /// What places of values are multiples of: a power of two, at least 64.
  virtual size_t alignment() const { return 64; }
  /// Zeroed memory, aligned to alignment(); DeviceBuffer returns it. Throws Error{failure} with the size when there is
  /// none.
  virtual void* allocate(size_t bytes) const = 0;
  /// Returns what allocate() gave.
  virtual void release(void* memory) const noexcept = 0;
  /// From the host's memory to the device's.
  virtual void upload(Place to, const void* from, size_t bytes) const = 0;
  /// From the device's memory to the host's.
  virtual void download(void* to, Place from, size_t bytes) const = 0;
  /// From one place of the device to another that does not overlap it.
  virtual void copy(Place to, Place from, size_t bytes) const = 0;
  /// Sets every byte.
  virtual void fill(Place to, std::byte value, size_t bytes) const = 0;
  /// Can the host use its memory directly? Then memory of the host is memory of the device, too: a mapped file, with
  /// its address as Place::memory.
  virtual bool host_visible() const { return false; }
  /// The host's address of a place, valid between runs; nullptr where memory is not host_visible().
  virtual std::byte* host([[maybe_unused]] Place at) const { return nullptr; }
  /// What kernels get as View::data.
  virtual void* address(Place at) const = 0;

  /// Makes calls ready to run one after another, any number of times. Throws Error{bad_input} for a
  /// kernel whose code this device cannot run.
  virtual std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) = 0;
  /// Runs a program that this device prepared. May return before it is done, unless `seconds` is given: a number for
  /// each call, to which its time is added.
  virtual void run(Program& program, std::span<double> seconds = {}) = 0;
  /// Waits for the programs. run() or this throws KernelFailure for what a kernel found in its data.
  virtual void synchronize() const {}

  /// Memory that was not returned.
  struct Held {
    size_t buffers = 0, bytes = 0;
  };
  Held held() const;

 protected:
  Device();
  /// Every device calls it first when it is destroyed: releases what is still held, with a line on stderr, for who
  /// holds it will find it gone.
  void close() noexcept;

 private:
  friend class DeviceBuffer;
  struct Ledger;
  std::shared_ptr<Ledger> ledger_;
};

/// Memory of a device that is owned: zeroed, movable. A device that is destroyed takes it along.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Throws Error{failure} with the size when there is no memory.
  DeviceBuffer(const Device& device, size_t bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  /// `offset` bytes from its beginning.
  Place at(size_t offset = 0) const { return {memory_, offset}; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(DeviceBuffer& other) noexcept;
  std::shared_ptr<Device::Ledger> ledger_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// " on device 'cuda'" where it has memory of its own; "" where that is the machine's.
std::string where_memory_is(const Device& device);
/// Throws Error{bad_input} naming what needs the device's memory, how much, and how much is free, where more is needed.
void require_memory(const Device& device, size_t bytes, std::string_view what);

/// Values of a device as the host sees them: the device's own memory where it is host_visible(), else a copy.
class HostTensor {
 public:
  /// `layout`: dtype, shape and strides; `at`: its first element (no memory: no data).
  HostTensor(const Device& device, Place at, const View& layout);
  const View& view() const { return view_; }

 private:
  Buffer copy_;
  View view_;
};

/// Stores contiguous values of the host, converted to `stored`, the dtype in which the device holds them.
void store_values(const Device& device, Place to, DType stored, const View& values);

}  // namespace toy

#include "toy/backend/device.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {

// What a device has given out. Buffers share it, so they know when the device has gone.
struct Device::Ledger {
  std::mutex mutex;
  const Device* device = nullptr;
  std::map<void*, size_t> held;
};

Program::~Program() = default;

int Device::host_threads() const { return available_cpus(); }

Device::Device() : ledger_(std::make_shared<Ledger>()) { ledger_->device = this; }

Device::~Device() = default;

Device::Held Device::held() const {
  const std::lock_guard lock(ledger_->mutex);
  Held all;
  for (const auto& [memory, bytes] : ledger_->held) ++all.buffers, all.bytes += bytes;
  return all;
}

void Device::close() noexcept {
  const Held left = held();
  const std::lock_guard lock(ledger_->mutex);
  if (left.buffers > 0)
    std::fprintf(stderr, "toy: a device was destroyed before %zu buffers of it (%zu bytes)\n", left.buffers,
                 left.bytes);
  for (const auto& [memory, bytes] : ledger_->held) release(memory);
  ledger_->held.clear();
  ledger_->device = nullptr;
}

DeviceBuffer::DeviceBuffer(const Device& device, size_t bytes) {
  if (bytes == 0) return;
  memory_ = device.allocate(bytes);
  ledger_ = device.ledger_;
  bytes_ = bytes;
  const std::lock_guard lock(ledger_->mutex);
  ledger_->held.emplace(memory_, bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (!memory_) return;
  const std::lock_guard lock(ledger_->mutex);
  if (!ledger_->device) return;
  ledger_->held.erase(memory_);
  ledger_->device->release(memory_);
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(ledger_, other.ledger_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
}

std::string where_memory_is(const Device& device) {
  return device.host_visible() ? "" : fmt::format(" on device '{}'", device.name());
}

void require_memory(const Device& device, size_t bytes, std::string_view what) {
  require_memory(bytes, what, device.memory().free, where_memory_is(device));
}

HostTensor::HostTensor(const Device& device, Place at, const View& layout) : view_(layout) {
  view_.data = nullptr;
  if (!at.memory) return;
  if (device.host_visible()) {
    view_.data = device.host(at);
    return;
  }
  size_t last = 0;  // element, counted from the first
  for (int d = 0; d < layout.shape.rank(); ++d) {
    if (layout.shape[d] == 0) return;
    last += size_t(layout.shape[d] - 1) * size_t(layout.stride[size_t(d)]);
  }
  copy_ = Buffer(bytes_of(layout.dtype, int64_t(last + 1)));
  device.download(copy_.data(), at, copy_.bytes());
  view_.data = copy_.data();
}

void store_values(const Device& device, Place to, DType stored, const View& values) {
  if (device.host_visible()) {
    convert(values, View(device.host(to), stored, values.shape));
  } else if (stored == values.dtype) {
    device.upload(to, values.data, values.bytes());
  } else {
    const Buffer copy(bytes_of(stored, values.shape));
    convert(values, View(copy.data(), stored, values.shape));
    device.upload(to, copy.data(), copy.bytes());
  }
}

}  // namespace toy

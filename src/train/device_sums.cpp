#include "train/device_sums.h"

#include <algorithm>
#include <vector>

#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "train/gradient_sums.h"
#include "train/sum_ranks.h"

namespace toy {
namespace {

using gpu::Kernel;

std::byte* address_of(const Device& device, Place at) { return static_cast<std::byte*>(device.address(at)); }

void cast(gpu::Driver& driver, const std::byte* from, int type, std::byte* to, int to_type, size_t count) {
  driver.launch({Kernel::cast,
                 {gpu::blocks(int64_t(count), ELEMENTS_OF_A_GROUP)},
                 {static_cast<const void*>(from), static_cast<const void*>(to), int64_t(count), type, to_type}});
}

}  // namespace

bool DeviceSums::possible(Device& device) {
  const gpu::Driver* const driver = gpu::driver_of(device);
  return driver && driver->connects();
}

DeviceSums::DeviceSums(Device& device, Communicator& ranks, bool in_bf16, double seconds)
    : device_(device), ranks_(ranks), in_bf16_(in_bf16), seconds_(seconds) {}

Communicator& DeviceSums::connected() {
  if (!connected_) connected_ = gpu::driver_of(device_)->connect(ranks_, seconds_);
  return *connected_;
}

void DeviceSums::reserve(size_t bytes) {
  const size_t wanted = sum_buffer_bytes(ranks_.size(), DType::f32, bytes / sizeof(float), in_bf16_);
  if (buffer_.bytes() < wanted) buffer_ = DeviceBuffer(), buffer_ = DeviceBuffer(device_, wanted);
}

void DeviceSums::sum(Place begin, size_t bytes) {
  reserve(bytes);
  gpu::Driver& driver = *gpu::driver_of(device_);
  const size_t size = in_bf16_ ? sizeof(BF16) : sizeof(float), values = bytes / sizeof(float);
  const auto n = size_t(ranks_.size()), rank = size_t(ranks_.rank());
  const SumCut cut(ranks_.size(), size, values);
  std::byte *const received = address_of(device_, buffer_.at()), *const packed =
                                                                     received + (n - 1) * cut.largest * size;
  const int leaves = 1 << SumTree(int64_t(n)).depth;
  for (size_t at = 0; at < values; at += cut.most) {
    const size_t count = std::min(cut.most, values - at);
    std::byte* const of_sum = address_of(device_, begin + at * sizeof(float));
    std::byte* const bucket = in_bf16_ ? packed : of_sum;
    if (in_bf16_) cast(driver, of_sum, gpu::WEIGHT_F32, packed, gpu::WEIGHT_BF16, count);
    const std::vector<size_t> bounds = cut.bounds(count);
    std::vector<std::byte*> parts;
    for (size_t r = 0; r < n; ++r)
      parts.push_back(r == rank ? bucket + bounds[rank] : received + (r - (r > rank)) * cut.largest * size);
    connected().exchange({bucket, count * size}, bounds, parts);
    const auto mine = int64_t((bounds[rank + 1] - bounds[rank]) / size);
    if (mine > 0)
      driver.launch({Kernel::add_ranks,
                     {gpu::blocks(mine, ELEMENTS_OF_A_GROUP)},
                     {static_cast<const void*>(parts[rank]), static_cast<const void*>(received),
                      int64_t(cut.largest * size), mine, int(n), int(rank), leaves, int(in_bf16_)}});
    connected().all_gather({bucket, count * size}, bounds);
    if (in_bf16_) cast(driver, packed, gpu::WEIGHT_BF16, of_sum, gpu::WEIGHT_F32, count);
  }
}

void DeviceSums::broadcast(int root, Place at, size_t bytes) {
  connected().broadcast(root, {address_of(device_, at), bytes});
}

}  // namespace toy

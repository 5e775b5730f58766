#include "backend/gpu/peak.h"

#include <algorithm>

#include "backend/gpu/gpu_device.h"
#include "toy/base/clock.h"

namespace toy::gpu {
namespace {

constexpr int kItems = 256, kRounds = 1024, kChains = 8, kTimes = 3;

// Chains that a kernel of peak.k continues per second. As many groups as fill the device: its time grows with them.
double steps_a_second(Device& device, Kernel kernel) {
  Driver* const driver = driver_of(device);
  if (!driver) return 0;
  constexpr double kLongEnough = 4e-3;
  constexpr int kMostGroups = 1 << 16;
  const DeviceBuffer out(device, kItems * sizeof(float));
  const auto seconds = [&](int groups) {
    const Launch launch{kernel, {groups}, {device.address(out.at()), kRounds}};
    const size_t end = 1;
    double s = 0;
    driver->run_timed({&launch, 1}, {&end, 1}, {&s, 1});
    return s;
  };
  seconds(1);  // loads it
  int groups = 1;
  double best = seconds(groups);
  while (best < kLongEnough && groups < kMostGroups) best = seconds(groups *= 2);
  for (int i = 1; i < kTimes; ++i) best = std::min(best, seconds(groups));
  return double(groups) * kItems * kRounds * kChains / best;
}

}  // namespace

double fma_gflops(Device& device) { return 2e-9 * steps_a_second(device, Kernel::peak_fma); }
double exp_gops(Device& device) { return 1e-9 * steps_a_second(device, Kernel::peak_exp); }

double copy_gbs(Device& device) {
  if (!driver_of(device)) return 0;
  constexpr size_t kLeast = size_t(64) << 20, kMost = size_t(1) << 30;  // more than caches hold
  constexpr double kLongEnough = 2e-3;
  const size_t free = device.memory().free, most = free > 0 ? std::min(kMost, free / 4) : kLeast;
  if (most < size_t(1) << 20) return 0;  // nothing that could be measured
  double best = 0;
  for (size_t bytes = std::min(kLeast, most);; bytes *= 2) {
    const DeviceBuffer from(device, bytes), to(device, bytes);
    double seconds = 0;
    for (int i = 0; i <= kTimes; ++i) {  // the first may have to find its pages
      device.synchronize();
      const double begin = steady_seconds();
      device.copy(to.at(), from.at(), bytes);
      device.synchronize();
      seconds = steady_seconds() - begin;
      if (i > 0) best = std::max(best, 2e-9 * double(bytes) / seconds);
    }
    if (seconds >= kLongEnough || 2 * bytes > most) return best;
  }
}

}  // namespace toy::gpu

#include "bind/shared_device.h"

#include <unistd.h>

#include <map>
#include <utility>

#include "toy/base/error.h"

namespace toy::bind {

std::shared_ptr<SharedDevice> SharedDevice::get(const DeviceOptions& options) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::weak_ptr<SharedDevice>> living;
  const std::scoped_lock lock(mutex);
  auto& held = living[{options.device, options.threads}];
  auto device = held.lock();
  if (!device || device->process_ != getpid()) held = device = std::make_shared<SharedDevice>(options);
  return device;
}

SharedDevice::SharedDevice(const DeviceOptions& options)
    : device_(make_device(options.device, {.threads = options.threads})), process_(getpid()) {}

SharedDevice::~SharedDevice() {
  if (process_ != getpid()) static_cast<void>(device_.release());
}

void SharedDevice::require_own_process() const {
  check(process_ == getpid(),
        "this process was forked after the model was loaded, and has none of its threads; load the model in the new "
        "process, or start processes with spawn");
}

Turn::Turn(SharedDevice& device) : device_(device) {
  device.require_own_process();
  check(device.holder_.load() != std::this_thread::get_id(),
        "a callback cannot use the device that calls it; return first");
  lock_ = std::unique_lock(device.mutex_);
  device.holder_ = std::this_thread::get_id();
}

Turn::~Turn() { device_.holder_ = std::thread::id(); }

}  // namespace toy::bind

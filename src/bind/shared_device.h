// A device that models share, and turns on it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "toy/backend/devices.h"
#include "toy/base/options.h"

namespace toy::bind {

/// Which device, as command lines say it.
struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"device", "Device that computes", {}, "Machine"}, o.device);
    f({"threads", "Number of threads; 0 uses every core", from_to(0, 1024), "Machine"}, o.threads);
  }
};

/// A device of this process. Threads take turns on it. Its own threads do not survive a fork.
class SharedDevice : public std::enable_shared_from_this<SharedDevice> {
 public:
  /// The one that lives already, or a new one.
  static std::shared_ptr<SharedDevice> get(const DeviceOptions& options);
  explicit SharedDevice(const DeviceOptions& options);
  /// Of another process: its threads are not here, so it stays as it is.
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  Device& device() const { return *device_; }
  /// Throws Error{bad_input} in a process that was forked from the one that made it.
  void require_own_process() const;

 private:
  friend class Turn;
  std::unique_ptr<Device> device_;
  pid_t process_;
  std::mutex mutex_;
  std::atomic<std::thread::id> holder_;
};

/// While one lives, its thread computes on the device. Waits for the turns of other threads. Throws Error{bad_input}
/// where this thread has the turn already, as in a callback, and as require_own_process().
class Turn {
 public:
  explicit Turn(SharedDevice& device);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SharedDevice& device_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace toy::bind

// Sums over ranks where a GPU holds the values: it sends, receives and adds them, and the host does not see them.
#pragma once

#include <memory>

#include "toy/backend/device.h"
#include "toy/base/communicator.h"

namespace toy {

class DeviceSums {
 public:
  /// Of this device?
  static bool possible(Device& device);
  /// As sum_ranks() of f32. `seconds`: what the ranks were told by give_up_after().
  DeviceSums(Device& device, Communicator& ranks, bool in_bf16, double seconds);
  /// The memory that a sum of so many bytes needs.
  void reserve(size_t bytes);
  /// The bits of sum_ranks(). All ranks call this and broadcast() in the same order.
  void sum(Place begin, size_t bytes);
  /// Rank `root`'s values to all.
  void broadcast(int root, Place at, size_t bytes);

 private:
  Communicator& connected();
  Device& device_;
  Communicator& ranks_;
  bool in_bf16_;
  double seconds_;
  std::unique_ptr<Communicator> connected_;  // when it is first needed: all ranks are there then
  DeviceBuffer buffer_;                      // what is received, then what is packed
};

}  // namespace toy

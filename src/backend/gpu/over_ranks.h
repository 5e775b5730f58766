// Ranks as others see them: all of Communicator is left to them. What moves bytes of a device's memory derives from it.
#pragma once

#include "toy/base/communicator.h"

namespace toy::gpu {

class OverRanks : public Communicator {
 public:
  explicit OverRanks(Communicator& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::string host(int rank) const override { return ranks_.host(rank); }
  int local_rank() const override { return ranks_.local_rank(); }
  int local_size() const override { return ranks_.local_size(); }
  bool any_thread() const override { return ranks_.any_thread(); }
  void send(int to, std::span<const std::byte> bytes) override { ranks_.send(to, bytes); }
  std::vector<std::byte> receive(int from) override { return ranks_.receive(from); }
  void broadcast(int root, std::span<std::byte> bytes) override { ranks_.broadcast(root, bytes); }
  void exchange(std::span<const std::byte> mine, std::span<const size_t> bounds,
                std::span<std::byte* const> parts) override {
    ranks_.exchange(mine, bounds, parts);
  }
  void all_gather(std::span<std::byte> all, std::span<const size_t> bounds) override { ranks_.all_gather(all, bounds); }
  void give_up_after(double seconds) override { ranks_.give_up_after(seconds); }
  void abort(int code) override { ranks_.abort(code); }

 protected:
  Communicator& ranks_;
};

}  // namespace toy::gpu

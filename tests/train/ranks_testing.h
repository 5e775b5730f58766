// Ranks that are threads of this process.
#pragma once

#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "toy/base/communicator.h"
#include "toy/train/worker.h"
#include "train_testing.h"

namespace toy::testing {

constexpr int64_t kTokens = 12;

// So many ranks, of which this thread is the first.
class Job {
 public:
  explicit Job(int ranks) : ranks_(local_communicators(ranks)) {
    for (int r = 1; r < ranks; ++r)
      threads_.emplace_back([this, r] { codes_[size_t(r)] = run_worker(*ranks_[size_t(r)]); });
  }
  ~Job() { leave(0); }
  void leave(int code) {
    if (threads_.empty()) return;
    dismiss_workers(*ranks_[0], code);
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }
  Communicator& first() { return *ranks_[0]; }
  int code(int rank) const { return codes_[size_t(rank)]; }

 private:
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::array<int, 16> codes_ = {};
  std::vector<std::thread> threads_;
};

inline Windows rows(int64_t first, int64_t count) {
  static const auto ids = walk(4000);
  return WindowSampler(ids, 1, kTokens, 1).windows(first, count);
}

}  // namespace toy::testing

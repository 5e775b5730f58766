// The exchange of a step's gradients, while backward still computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "toy/base/threads.h"
#include "toy/train/trainer.h"

namespace toy {

class Crew;
class GradientSums;

/// Gradients that are complete, as steps of a plan go by.
struct GradientBucket {
  size_t end = 0;                                 ///< after so many steps
  std::vector<std::pair<size_t, size_t>> ranges;  ///< where they lie in the accumulators: offset and bytes
};
/// The gradients of a plan that adds them to accumulators, in its order. A bucket has at least `bytes`, but for the
/// last one.
std::vector<GradientBucket> gradient_buckets(const Plan& step, const ModelSpec& spec, const GradientSums& sums,
                                             size_t bytes);

/// A thread that adds buckets over the ranks, in the same order on all of them, each as soon as they all have it. From
/// begin() to finish() the ranks are its own to talk to. Where the host sees the device's memory.
class EarlySums {
 public:
  EarlySums(const Plan& step, const ModelSpec& spec, GradientSums& sums, Crew& crew);
  ~EarlySums();
  EarlySums(const EarlySums&) = delete;
  EarlySums& operator=(const EarlySums&) = delete;

  /// Where the last pass of a step stops to say complete(); see Session::run().
  std::span<const size_t> ends() const { return ends_; }
  void begin();
  /// Buckets 0 to i are.
  void complete(size_t i);
  /// All are, or this rank has none to give because it failed: the others still get something. Waits for the sums.
  /// Returns the seconds that the thread has worked, or waited for slower ranks. Throws what it found wrong.
  double finish();

 private:
  void work();
  void add(const GradientBucket& bucket);
  GradientSums& sums_;
  Crew& crew_;
  std::vector<GradientBucket> buckets_;
  std::vector<size_t> ends_;
  ThreadPool alone_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ready_ = 0, done_ = 0;  // buckets
  double seconds_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace toy

#include "train/early_sums.h"

#include <algorithm>
#include <map>

#include "toy/base/clock.h"
#include "train/crew.h"
#include "train/gradient_sums.h"
#include "train/sum_ranks.h"

namespace toy {
namespace {

// The step after which each accumulator has its last value.
std::map<std::string, size_t> last_writes(const Plan& plan) {
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < plan.steps.size(); ++i)
    for (const Operand& o : plan.steps[i].out)
      if (o.base == Operand::param) last[plan.params[size_t(o.index)].name] = i;
  return last;
}

// Neighbours become one.
void join(std::vector<std::pair<size_t, size_t>>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<size_t, size_t>> joined;
  for (const auto& [offset, bytes] : ranges) {
    if (!joined.empty() && joined.back().first + joined.back().second == offset)
      joined.back().second += bytes;
    else
      joined.emplace_back(offset, bytes);
  }
  ranges = std::move(joined);
}

}  // namespace

std::vector<GradientBucket> gradient_buckets(const Plan& step, const ModelSpec& spec, const GradientSums& sums,
                                             size_t bytes) {
  const std::map<std::string, size_t> last = last_writes(step);
  std::vector<size_t> offsets;
  const std::vector<TensorSpec> tensors = trained_tensors(spec);
  for (const TensorSpec& t : tensors) offsets.push_back(sums.offset(t.name));
  offsets.push_back(sums.bytes());
  std::vector<std::pair<size_t, size_t>> order;  // step, tensor
  for (size_t i = 0; i < tensors.size(); ++i) order.emplace_back(last.at(accumulator_of(tensors[i].name, 0)), i);
  std::sort(order.begin(), order.end());
  std::vector<GradientBucket> buckets;
  size_t held = bytes;
  for (const auto& [at, i] : order) {
    if (held >= bytes && (buckets.empty() || buckets.back().end <= at)) buckets.emplace_back(), held = 0;
    buckets.back().end = at + 1;
    buckets.back().ranges.emplace_back(offsets[i], offsets[i + 1] - offsets[i]);
    held += offsets[i + 1] - offsets[i];
  }
  for (GradientBucket& b : buckets) join(b.ranges);
  return buckets;
}

EarlySums::EarlySums(const Plan& step, const ModelSpec& spec, GradientSums& sums, Crew& crew)
    : sums_(sums), crew_(crew) {
  // Of small gradients, few messages.
  constexpr size_t kParts = 8, kLeast = size_t(1) << 16;
  buckets_ = gradient_buckets(step, spec, sums, std::clamp(sums.bytes() / kParts, kLeast, kSumBucket));
  size_t largest = 0;
  for (const GradientBucket& b : buckets_) {
    ends_.push_back(b.end);
    for (const auto& [offset, count] : b.ranges) largest = std::max(largest, count);
  }
  crew.reserve(largest);
  thread_ = std::thread([this] { work(); });
}

EarlySums::~EarlySums() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EarlySums::begin() {
  const std::lock_guard lock(mutex_);
  ready_ = done_ = 0;
  seconds_ = 0;
  error_ = nullptr;
}

void EarlySums::complete(size_t i) {
  {
    const std::lock_guard lock(mutex_);
    ready_ = std::max(ready_, i + 1);
  }
  changed_.notify_all();
}

double EarlySums::finish() {
  complete(buckets_.size() - 1);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == buckets_.size(); });
  if (error_) std::rethrow_exception(error_);
  return seconds_;
}

void EarlySums::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || done_ < ready_; });
    if (stop_) return;
    if (error_) {
      done_ = ready_;
    } else {
      const size_t next = done_;
      lock.unlock();
      const double before = steady_seconds();
      std::exception_ptr error;
      try {
        add(buckets_[next]);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      seconds_ += steady_seconds() - before;
      error_ = error;
      ++done_;
    }
    changed_.notify_all();
  }
}

void EarlySums::add(const GradientBucket& bucket) {
  for (const auto& [offset, bytes] : bucket.ranges) {
    sums_.add_last(offset, bytes);
    crew_.sum(alone_, sums_.begin() + offset, bytes);
  }
}

}  // namespace toy

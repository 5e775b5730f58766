// Gradients of a step's shards, added as a balanced tree.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "toy/base/threads.h"
#include "toy/train/trainer.h"

namespace toy {

/// The order of a sum of n terms: n is m 2^k with m odd. Of m subtrees of 2^k terms each, which lie next to each other,
/// each is added as a balanced binary tree, and these sums from the first to the last.
struct SumTree {
  int64_t subtrees;  ///< m
  int depth;         ///< k
  explicit SumTree(int64_t n);
  /// Partial sums that are kept while the terms come one after another.
  int levels() const { return depth + (subtrees > 1 ? 1 : 0); }
};

/// The accumulator of a trained tensor at a level.
std::string accumulator_of(const std::string& tensor, int level);
/// Of each trained tensor the accumulator of a level: 0 takes in the gradients of a shard, the others partial sums.
std::vector<std::pair<std::string, TensorType>> accumulators_of(const ModelSpec& spec, int level);
/// The plans that add each level to the next.
std::vector<std::shared_ptr<const Plan>> compile_sums(Device& device, const ModelSpec& spec,
                                                      const TrainerOptions& options);
/// Shards whose gradients this process adds up.
int64_t local_shards(const TrainerOptions& options);

/// The accumulators of all levels. Memory: the gradients of all trained tensors, times levels() + 1.
class GradientSums {
 public:
  GradientSums(Device& device, const TrainPlans& plans, const ModelSpec& spec, const TrainerOptions& options,
               const std::shared_ptr<const DeviceBuffer>& arena);
  /// Before a shard's first gradient.
  void clear() { levels_[0]->clear(); }
  /// After its last one: adds the sums that are complete with shard i = 0, 1, ... With TrainerOptions::wire each is
  /// rounded.
  void add(int64_t i);
  /// Instead of add() for the last shard, where the host sees the device's memory: of `bytes` that are complete, from
  /// `offset` on in each level. For another thread than the device's, as long as that writes to others.
  void add_last(size_t offset, size_t bytes);
  /// Of a tensor, in each level.
  size_t offset(const std::string& tensor) const;
  /// What a shard's gradients go to.
  const ParamStore& shard() const { return *levels_.front(); }
  /// The sum of all, after the last one.
  const ParamStore& sum() const { return *levels_.back(); }
  /// Where that lies: tensors one behind the other, with zeros between them.
  Place begin() const { return begin(levels_.size() - 1); }
  size_t bytes() const { return bytes_; }

 private:
  template <class T>
  void add_last(size_t offset, size_t bytes);
  Place begin(size_t level) const { return levels_[level]->place(first_[level]); }
  void copy(int from);
  void run(int level);
  void round(int level);
  SumTree tree_;
  bool rounds_;
  Device& device_;
  std::vector<std::unique_ptr<ParamStore>> levels_;
  std::unique_ptr<ThreadPool> pool_;                // where it rounds
  ThreadPool alone_{1};                             // of add_last()
  std::vector<std::string> first_;                  // tensor of each
  size_t bytes_ = 0;                                // of each, whose tensors lie one behind the other
  std::vector<std::unique_ptr<Session>> sessions_;  // level l to l + 1
};

}  // namespace toy

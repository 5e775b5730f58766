#include "train/gradient_sums.h"

#include <fmt/format.h>

#include <bit>

#include "backend/flush_denormals.h"
#include "toy/base/communicator.h"
#include "toy/ops/ops.h"
#include "train/sum_ranks.h"

namespace toy {

SumTree::SumTree(int64_t n) : subtrees(n), depth(std::countr_zero(uint64_t(n))) { subtrees >>= depth; }

int64_t local_shards(const TrainerOptions& options) {
  return options.ranks ? options.shards / options.ranks->size() : options.shards;
}

std::string accumulator_of(const std::string& tensor, int level) {
  return level == 0 ? tensor + ".grad" : fmt::format("{}.sum{}", tensor, level);
}

std::vector<std::pair<std::string, TensorType>> accumulators_of(const ModelSpec& spec, int level) {
  std::vector<std::pair<std::string, TensorType>> list;
  for (const TensorSpec& s : trained_tensors(spec))
    list.emplace_back(accumulator_of(s.name, level), TensorType{DType::f32, s.shape, 0});
  return list;
}

std::vector<std::shared_ptr<const Plan>> compile_sums(Device& device, const ModelSpec& spec,
                                                      const TrainerOptions& options) {
  std::vector<std::shared_ptr<const Plan>> plans;
  const int levels = SumTree(local_shards(options)).levels();
  for (int l = 0; l < levels; ++l) {
    Graph g;
    const auto from = accumulators_of(spec, l), to = accumulators_of(spec, l + 1);
    std::vector<Value> updates;
    for (size_t i = 0; i < from.size(); ++i)
      updates.push_back(accumulate(g.param(to[i].first, to[i].second), g.param(from[i].first, from[i].second)));
    plans.push_back(std::make_shared<const Plan>(compile(g, {}, updates, device, {})));
  }
  return plans;
}

GradientSums::GradientSums(Device& device, const TrainPlans& plans, const ModelSpec& spec,
                           const TrainerOptions& options, const std::shared_ptr<const DeviceBuffer>& arena)
    : tree_(local_shards(options)), rounds_(options.wire == TrainerOptions::Wire::bf16), device_(device) {
  for (int l = 0; l <= tree_.levels(); ++l) {
    levels_.push_back(std::make_unique<ParamStore>(device));
    const auto tensors = accumulators_of(spec, l);
    levels_.back()->add(tensors);
    first_.push_back(tensors.front().first);
    const std::string& last = tensors.back().first;
    bytes_ = levels_.back()->place(last).offset - begin(size_t(l)).offset +
             bytes_of(device.storage(DType::f32), tensors.back().second.shape);
    if (l == 0) continue;
    const std::initializer_list<const ParamStore*> stores{levels_[size_t(l) - 1].get(), levels_[size_t(l)].get()};
    sessions_.push_back(std::make_unique<Session>(device, plans.sums[size_t(l) - 1], stores, arena));
  }
  if (rounds_) pool_ = std::make_unique<ThreadPool>(device.threads());
}

// Level l + 1 waits with the sum of 2^l shards for that of the next 2^l, and then holds the sum of both.
void GradientSums::add(int64_t i) {
  round(0);
  for (int l = 0; l < tree_.depth; ++l) {
    if ((i >> l) % 2 == 0) return copy(l);
    run(l);
  }
  if (tree_.subtrees == 1) return;
  if (i >> tree_.depth == 0) return copy(tree_.depth);
  run(tree_.depth);
}

template <class T>
void GradientSums::add_last(size_t offset, size_t bytes) {
  const FlushDenormals as_kernels_do;
  const DType type = device_.storage(DType::f32);
  for (size_t l = 0; l < levels_.size(); ++l) {
    std::byte* const at = device_.host(begin(l) + offset);
    if (l > 0) {
      const T* const from = reinterpret_cast<const T*>(device_.host(begin(l - 1) + offset));
      T* const to = reinterpret_cast<T*>(at);
      for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] += from[i];
    }
    if (rounds_) round_to_bf16(alone_, type, {at, bytes});
  }
}

// Its number has a 1 for every level, so that each takes in the one before it.
void GradientSums::add_last(size_t offset, size_t bytes) {
  if (device_.storage(DType::f32) == DType::f64) return add_last<double>(offset, bytes);
  add_last<float>(offset, bytes);
}

size_t GradientSums::offset(const std::string& tensor) const {
  return levels_[0]->place(accumulator_of(tensor, 0)).offset - begin(0).offset;
}

void GradientSums::copy(int from) { device_.copy(begin(size_t(from) + 1), begin(size_t(from)), bytes_); }

void GradientSums::run(int level) {
  sessions_[size_t(level)]->run();
  round(level + 1);
}

// A level to bf16.
void GradientSums::round(int level) {
  if (!rounds_) return;
  const Place at = begin(size_t(level));
  const DType type = device_.storage(DType::f32);
  if (device_.host_visible()) return round_to_bf16(*pool_, type, {device_.host(at), bytes_});
  Buffer copy(bytes_);
  device_.download(copy.data(), at, bytes_);
  round_to_bf16(*pool_, type, {static_cast<std::byte*>(copy.data()), bytes_});
  device_.upload(at, copy.data(), bytes_);
}

}  // namespace toy

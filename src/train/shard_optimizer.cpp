#include "train/shard_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "toy/base/communicator.h"
#include "train/local_steps.h"

namespace toy {

std::vector<int> owners_of(const ModelSpec& spec, const TrainerOptions& options) {
  const Communicator* ranks = options.ranks;
  if (!ranks || ranks->size() == 1 || options.local_steps > 0) return {};
  return sharing_owners(spec, options);
}

std::vector<int> sharing_owners(const ModelSpec& spec, const TrainerOptions& options) {
  const std::vector<TensorSpec> tensors = trained_tensors(spec);
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].shape.count() > tensors[b].shape.count(); });
  std::vector<int64_t> load(size_t(options.ranks->size()));
  std::vector<int> owners(tensors.size());
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += tensors[i].shape.count();
    owners[i] = int(least - load.begin());
  }
  return owners;
}

std::vector<bool> owned(const ModelSpec& spec, const TrainerOptions& options) {
  std::vector<bool> mine(trained_tensors(spec).size(), true);
  const std::vector<int> owners = owners_of(spec, options);
  for (size_t i = 0; i < owners.size(); ++i) mine[i] = owners[i] == options.ranks->rank();
  return mine;
}

std::vector<OwnedMoment> owned_moments(const ModelSpec& spec, const TrainerOptions& options) {
  std::vector<OwnedMoment> list;
  const std::vector<int> owners = owners_of(spec, options);
  const int here = options.ranks ? options.ranks->rank() : 0;
  const std::vector<TensorUpdate> updates = tensor_updates(spec, options.optimizer);
  for (size_t i = 0; i < updates.size(); ++i)
    for (const auto& [name, type] : updates[i].state) list.push_back({name, type, owners.empty() ? here : owners[i]});
  if (options.local_steps > 0) {
    const size_t of_one = list.size();
    const std::vector<TensorSpec> tensors = trained_tensors(spec);
    const std::vector<int> sharing = sharing_owners(spec, options);
    for (OwnedMoment& m : list) m.rank = 0;
    for (int r = 1; r < options.ranks->size(); ++r) {
      const auto there = [r](const std::string& name) { return fmt::format("{}.rank{}", name, r); };
      for (size_t i = 0; i < of_one; ++i) list.push_back({there(list[i].name), list[i].type, r, list[i].local});
      for (const TensorSpec& t : tensors)
        list.push_back({there(t.name), TensorType{DType::f32, t.shape, 0}, r, t.name, true});
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorType type{DType::f32, tensors[i].shape, 0};
      list.push_back({LocalSteps::start_of(tensors[i].name), type, sharing[i]});
      if (options.outer_momentum > 0) list.push_back({LocalSteps::velocity_of(tensors[i].name), type, sharing[i]});
    }
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return list;
}

}  // namespace toy

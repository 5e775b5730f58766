#include "train/shard_optimizer.h"

#include <algorithm>
#include <numeric>

#include "toy/base/communicator.h"

namespace toy {

std::vector<int> owners_of(const ModelSpec& spec, const TrainerOptions& options) {
  const Communicator* ranks = options.ranks;
  if (!ranks || ranks->size() == 1 || options.optimizer.ema > 0) return {};
  const std::vector<TensorSpec> tensors = trained_tensors(spec);
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a].shape.count() > tensors[b].shape.count(); });
  std::vector<int64_t> load(size_t(ranks->size()));
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
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return list;
}

}  // namespace toy

#include "train/local_steps.h"

#include "toy/ops/ops.h"
#include "train/crew.h"
#include "train/gradient_sums.h"
#include "train/shard_optimizer.h"

namespace toy {

std::shared_ptr<const Plan> compile_outer(Device& device, const ModelSpec& spec, const TrainerOptions& options) {
  if (options.local_steps == 0) return nullptr;
  const std::vector<int> owners = sharing_owners(spec, options);
  const auto sums = accumulators_of(spec, 0);
  Graph g;
  const Value lr = g.scalar(options.outer_lr);
  std::vector<Value> updates;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (owners[i] != options.ranks->rank()) continue;
    const auto& [sum, type] = sums[i];
    const std::string name = trained_tensors(spec)[i].name;
    const Value start = g.param(LocalSteps::start_of(name), type);
    const Value moved = start - scale(g.param(sum, type), 1.0 / options.ranks->size());
    if (options.outer_momentum == 0) {
      updates.push_back(sgd({start, {}}, moved, lr, {}, {}).w);
      continue;
    }
    const SgdState next = sgd({start, g.param(LocalSteps::velocity_of(name), type)}, moved, lr, {},
                              {.momentum = options.outer_momentum, .nesterov = true});
    updates.insert(updates.end(), {next.w, next.v});
  }
  if (updates.empty()) return nullptr;
  return std::make_shared<const Plan>(compile(g, {}, updates, device, {}));
}

LocalSteps::LocalSteps(Device& device, const Model& model, const TrainerOptions& options, const TrainPlans& plans,
                       ParamStore& moments, GradientSums& sums, const std::shared_ptr<const DeviceBuffer>& arena)
    : device_(device), weights_(*model.params), moments_(moments), sums_(sums) {
  const std::vector<int> owners = sharing_owners(model.spec, options);
  for (const TensorSpec& t : trained_tensors(model.spec))
    tensors_.push_back({t.name, owners[tensors_.size()] == options.ranks->rank()});
  if (plans.outer)
    session_ = std::make_unique<Session>(device, plans.outer,
                                         std::initializer_list<const ParamStore*>{&moments, &sums.sum()}, arena);
}

void LocalSteps::begin() {
  for (const auto& [name, own] : tensors_)
    if (own)
      device_.copy(moments_.place(start_of(name)), weights_.place(name),
                   bytes_of(weights_.stored(name), weights_.type(name).shape));
}

void LocalSteps::meet(Crew& crew) {
  const auto bytes = [this](const std::string& name) {
    return bytes_of(weights_.stored(name), weights_.type(name).shape);
  };
  for (const auto& [name, own] : tensors_)
    device_.copy(sums_.sum().place(accumulator_of(name, 0)), weights_.place(name), bytes(name));
  crew.sum(sums_.begin(), sums_.bytes());
  if (session_) session_->run();
  for (const auto& [name, own] : tensors_)
    if (own) device_.copy(weights_.place(name), moments_.place(start_of(name)), bytes(name));
  crew.spread(weights_);
}

}  // namespace toy

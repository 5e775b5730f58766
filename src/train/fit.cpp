#include "toy/train/fit.h"

#include <cmath>
#include <memory>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/formats/gguf.h"

namespace toy {

void add_params(ParamStore& store, std::span<const Value> params, uint64_t seed) {
  for (const Value p : params) {
    const std::string& name = p.graph->node(p).name;
    const TensorType& type = p.type();
    check(!name.empty(), "add_params: a value of type {} is no parameter; give what Graph::param() returned",
          type.str());
    check(!store.has(name), "add_params: the store has '{}' already", name);
    store.add(name, type);
    if (type.shape.rank() < 2) continue;
    const Philox random(seed, name);
    const double deviation = 1 / std::sqrt(double(type.shape[type.shape.rank() - 1]));
    std::vector<float> values(size_t(type.shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(deviation * random.normal(i));
    store.write(name, values);
  }
}

std::vector<float> fit(Device& device, ParamStore& store, Value loss, std::span<const Value> params,
                       const FitOptions& options, const std::function<void(Session&, int64_t)>& feed) {
  check(options.steps >= 0, "fit: steps is {}; use 0 or more", options.steps);
  check(std::isfinite(options.lr) && options.lr >= 0, "fit: lr is {}; use a number from 0 on", options.lr);
  check(feed != nullptr, "fit: there is no feed; give a function that sets the inputs, which may do nothing");
  const OptimizerStep step = minimize(loss, params, options.optimizer);
  const auto plan = std::make_shared<const Plan>(compile(*loss.graph, std::vector{loss}, step.updates, device));
  for (const Value w : params)
    check(store.has(loss.graph->node(w).name), "fit: the store has no values for '{}'; add() and write() them first",
          loss.graph->node(w).name);
  for (const PlanLeaf& p : plan->params)
    if (!store.has(p.name)) store.add(p.name, p.type);
  Session session(device, plan, {&store});
  std::vector<float> losses;
  for (int64_t i = 0; i < options.steps; ++i) {
    feed_optimizer(session, options.optimizer, i, options.lr);
    feed(session, i);
    session.run();
    losses.push_back(session.scalar(0));
    check(std::isfinite(losses.back()), "fit: the loss of step {} is {}; check the inputs, or use a smaller lr", i,
          losses.back());
  }
  return losses;
}

void save_params(const ParamStore& store, const std::string& path) {
  check(!store.names().empty(), "{}: the store has no tensors to save", path);
  gguf::Writer w("toy-params");
  std::vector<HostTensor> values;  // until the file is written
  for (const std::string& name : store.names()) {
    values.push_back(store.host(name));
    w.add(name, values.back().view(), store.type(name).dtype);
  }
  w.finish(path);
}

void load_params(ParamStore& store, const std::string& path) {
  check(!store.names().empty(), "{}: the store has no tensors to load; add() those of the net first", path);
  const gguf::File file = gguf::File::open(path);
  for (const std::string& name : store.names()) {
    const gguf::TensorInfo* t = file.find(name);
    const TensorType& type = store.type(name);
    check(t != nullptr, "{}: it has no tensor '{}', which the net needs; load a file of save_params() for this net",
          path, name);
    check(t->dtype == type.dtype && t->shape == type.shape, "{}: its tensor '{}' is {}, and the net's is {}", path,
          name, t->shape.str(), type.str());
  }
  for (const std::string& name : store.names()) {
    const gguf::TensorInfo* t = file.find(name);
    store.write(name, View(const_cast<std::byte*>(t->data), *t->dtype, t->shape));
  }
}

}  // namespace toy

#include "toy/train/fit.h"

#include <memory>

#include "toy/base/error.h"
#include "toy/formats/gguf.h"

namespace toy {

std::vector<float> fit(Device& device, ParamStore& store, Value loss, std::span<const Value> params,
                       const FitOptions& options, const std::function<void(Session&, int64_t)>& feed) {
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
  }
  return losses;
}

void save_params(const ParamStore& store, const std::string& path) {
  gguf::Writer w("toy-params");
  std::vector<HostTensor> values;  // until the file is written
  for (const std::string& name : store.names()) {
    values.push_back(store.host(name));
    w.add(name, values.back().view(), store.type(name).dtype);
  }
  w.finish(path);
}

void load_params(ParamStore& store, const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  for (const std::string& name : store.names()) {
    const gguf::TensorInfo* t = file.find(name);
    const TensorType& type = store.type(name);
    check(t && t->dtype == type.dtype && t->shape == type.shape, "{}: it has {} for '{}', and the net {}", path,
          t ? t->shape.str() : "nothing", name, type.str());
  }
  for (const std::string& name : store.names()) {
    const gguf::TensorInfo* t = file.find(name);
    store.write(name, View(const_cast<std::byte*>(t->data), *t->dtype, t->shape));
  }
}

}  // namespace toy

#include "toy/models/model.h"

#include <algorithm>
#include <cmath>

#include "models/builders.h"
#include "toy/base/philox.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {

Weights Model::weights(Graph& graph) const {
  return {graph, [store = params.get()](const std::string& name) { return store->type(name).dtype; }};
}

std::vector<float> initial_values(const TensorSpec& t, uint64_t seed, double init_scale, ThreadPool& pool) {
  const float value = t.init == Init::constant ? t.value : t.init == Init::zeros ? 0.0f : 1.0f;
  std::vector<float> values(size_t(t.shape.count()), value);
  const Philox random(seed, t.name);
  if (t.init == Init::own)
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(t.own(t.shape, random, int64_t(i), init_scale));
  if (t.init == Init::matrix || t.init == Init::embedding) {
    const double sigma = t.init == Init::embedding ? 0.02 : init_scale / std::sqrt(double(t.shape.back()));
    pool.run([&](int thread) {
      const Range mine = part(int64_t(values.size()), thread, pool.size());
      for (int64_t i = mine.begin; i < mine.end; ++i) values[size_t(i)] = float(sigma * random.normal(uint64_t(i)));
    });
  }
  return values;
}

Model random_model(const ModelSpec& spec, const Device& device, uint64_t seed, double init_scale) {
  spec.validate();
  Model m{spec, std::make_unique<ParamStore>(device), nullptr};
  ThreadPool pool(device.host_threads());
  for (const TensorSpec& t : tensors_of(spec)) {
    m.params->add(t.name, {DType::f32, t.shape, 0});
    m.params->write(t.name, initial_values(t, seed, init_scale, pool));
  }
  return m;
}

}  // namespace toy

#include "toy/models/model.h"

#include <cmath>

#include "toy/base/philox.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {

Weights Model::weights(Graph& graph) const {
  return {graph, [store = params.get()](const std::string& name) { return store->type(name).dtype; }};
}

Model random_model(const ModelSpec& spec, const Device& device, uint64_t seed, double init_scale) {
  spec.validate();
  Model m{spec, std::make_unique<ParamStore>(device), nullptr};
  ThreadPool pool;
  for (const TensorSpec& t : tensors_of(spec)) {
    m.params->add(t.name, {DType::f32, t.shape, 0});
    std::vector<float> values(size_t(t.shape.count()), t.init == TensorSpec::Init::zeros ? 0.0f : 1.0f);
    if (t.init == TensorSpec::Init::matrix || t.init == TensorSpec::Init::embedding) {
      const double sigma =
          t.init == TensorSpec::Init::embedding ? 0.02 : init_scale / std::sqrt(double(t.shape.back()));
      const Philox random(seed, t.name);
      pool.run([&](int thread) {
        const Range mine = part(int64_t(values.size()), thread, pool.size());
        for (int64_t i = mine.begin; i < mine.end; ++i) values[size_t(i)] = float(sigma * random.normal(uint64_t(i)));
      });
    }
    m.params->write(t.name, values);
  }
  return m;
}

}  // namespace toy

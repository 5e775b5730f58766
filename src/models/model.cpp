#include "toy/models/model.h"

#include <cmath>

#include "toy/base/philox.h"
#include "toy/tensor/convert.h"

namespace toy {

Weights Model::weights(Graph& graph) const {
  return {graph, [store = params.get()](const std::string& name) { return store->type(name).dtype; }};
}

Model random_model(const ModelSpec& spec, const Device& device, uint64_t seed, double init_scale) {
  spec.validate();
  Model m{spec, std::make_unique<ParamStore>(device), nullptr};
  for (const TensorSpec& t : tensors_of(spec)) {
    m.params->add(t.name, {DType::f32, t.shape, 0});
    std::vector<float> values(size_t(t.shape.count()), t.init == TensorSpec::Init::zeros ? 0.0f : 1.0f);
    if (t.init == TensorSpec::Init::matrix || t.init == TensorSpec::Init::embedding) {
      const double sigma =
          t.init == TensorSpec::Init::embedding ? 0.02 : init_scale / std::sqrt(double(t.shape.back()));
      const Philox random(seed, t.name);
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(sigma * random.normal(i));
    }
    m.params->write(t.name, values);
  }
  return m;
}

}  // namespace toy

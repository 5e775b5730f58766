#include "toy/models/model.h"

#include <algorithm>
#include <cmath>

#include "toy/base/host_threads.h"
#include "toy/base/philox.h"
#include "toy/base/threads.h"
#include "toy/tensor/convert.h"

namespace toy {

namespace {

using Init = TensorSpec::Init;

// The logarithm of a rate of decay between 0 and 16; u between 0 and 1.
double log_rate(double u) { return std::log(16 * std::max(u, 1e-4)); }

// softplus of it is spread evenly in the logarithm between 0.001 and 0.1.
double step_bias(double u) { return std::log(std::expm1(0.001 * std::pow(100.0, u))); }

// The factor of a filter's column: it fades towards older rows, within 1 row in the first channel and a quarter of the
// filter in the last one. The squares of a channel's factors add up to 1, as in Init::matrix.
double fading(const Shape& filter, int64_t i) {
  const int64_t width = filter[1], age = width - 1 - i % width;
  const double rows =
      std::pow(std::max(1.0, double(width) / 4), double(i / width) / double(std::max<int64_t>(1, filter[0] - 1)));
  const double r = std::exp(-1 / rows);
  return std::sqrt((1 - r * r) / (1 - std::pow(r, 2 * double(width)))) * std::pow(r, double(age));
}

}  // namespace

Weights Model::weights(Graph& graph) const {
  return {graph, [store = params.get()](const std::string& name) { return store->type(name).dtype; }};
}

std::vector<float> initial_values(const TensorSpec& t, uint64_t seed, double init_scale, ThreadPool& pool) {
  const float value = t.init == Init::constant ? t.value : t.init == Init::zeros ? 0.0f : 1.0f;
  std::vector<float> values(size_t(t.shape.count()), value);
  const Philox random(seed, t.name);
  if (t.init == Init::log_rate || t.init == Init::step_bias)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(t.init == Init::log_rate ? log_rate(random.uniform(i)) : step_bias(random.uniform(i)));
  if (t.init == Init::fading)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = float(init_scale * fading(t.shape, int64_t(i)) * random.normal(i));
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
  ThreadPool pool(host_threads());
  for (const TensorSpec& t : tensors_of(spec)) {
    m.params->add(t.name, {DType::f32, t.shape, 0});
    m.params->write(t.name, initial_values(t, seed, init_scale, pool));
  }
  return m;
}

}  // namespace toy

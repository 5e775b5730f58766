// Random adapters.
#pragma once

#include <string>
#include <vector>

#include "toy/base/philox.h"
#include "toy/models/adapter.h"

namespace toy::testing {

/// Adds a random adapter of all linear maps; equal seeds give the same one.
inline void add_adapter(Model& model, uint64_t seed) {
  model.spec.adapters.push_back(lora_adapter(model.spec, {.rank = 3, .alpha = 6}));
  const int number = int(model.spec.adapters.size()) - 1;
  add_adapter_weights(model, seed);
  for (const TensorSpec& t : tensors_of(model.spec)) {
    if (t.adapter != number) continue;
    const Philox random(seed, t.name.substr(0, t.name.find(".lora_") + 7));  // whatever number it has in the model
    std::vector<float> values(size_t(t.shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(0.3 * random.normal(i));
    model.params->write(t.name, values);
  }
}

}  // namespace toy::testing

#include "toy/decode/repack.h"

#include "toy/models/transformer.h"

namespace toy {

bool repack_pays(const Model& model, int64_t generated, int64_t scored) {
  constexpr int64_t kLeastGenerated = 256, kLeastScored = 4096;  // below, making the copy takes longer than it saves
  if (generated < kLeastGenerated && scored < kLeastScored) return false;
  size_t bytes = 0;
  for (const TensorSpec& t : tensors_of(model.spec))
    if (const DType stored = model.params->stored(t.name); is_quantized(stored)) bytes += bytes_of(stored, t.shape);
  return bytes <= model.params->device().memory().free / 2;
}

}  // namespace toy

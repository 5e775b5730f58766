// `gemma` (Gemma Team 2024).
#include "models/families/gemma.h"

#include <cmath>

#include "toy/base/error.h"

namespace toy {

Family gemma_like(std::string architecture) {
  Family f = llama_like(std::move(architecture), RopePairing::half);
  std::erase(f.holds, "tied");
  f.defaults.embedding_scale = 0;
  f.defaults.norm_eps = 1e-6f;
  f.defaults.layers = {LayerSpec{.ffn = FfnKind::geglu}};
  return f;
}

float gemma_attention_scale(const ModelSpec& m, size_t layers_of_27b) {
  return m.layers.size() == layers_of_27b ? 1 / std::sqrt(float(m.d_model / m.layers.front().heads)) : 0;
}

void require_gemma_attention_scale(const ModelSpec& m, size_t layers_of_27b) {
  const float only = gemma_attention_scale(m, layers_of_27b);
  for (const LayerSpec& l : m.layers)
    check(l.attention_scale == only,
          "model {}: attention_scale is {}; files of the architecture {} do not state it, and with {} layers it is {}. "
          "Scale q instead",
          m.name, l.attention_scale, m.architecture, m.layers.size(), only);
}

Family gemma_family() { return gemma_like("gemma"); }

}  // namespace toy

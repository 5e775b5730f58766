// `qwen2` (Yang et al. 2024): Llama with biases on q, k and v.
#include "models/families/llama_like.h"

namespace toy {

Family qwen2_family() {
  Family f = llama_like("qwen2", RopePairing::half);
  f.defaults.layers = {LayerSpec{.bias = {.q = true, .k = true, .v = true}}};
  f.check = [](const ModelSpec& m) { require_like_layers(m, kOnceForAll), require_full_width(m); };
  return f;
}

}  // namespace toy

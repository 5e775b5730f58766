// `qwen3` (Yang et al. 2025): Llama with a norm of each head of q and k.
#include "models/families/llama_like.h"

namespace toy {

Family qwen3_family() {
  Family f = llama_like("qwen3", RopePairing::half);
  f.defaults.layers = {LayerSpec{.qk_norm = LayerSpec::head_norm}};
  return f;
}

}  // namespace toy

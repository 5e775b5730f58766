// `smollm3` (Bakouch et al. 2025): Llama whose every fourth layer has no rotary positions. llama.cpp knows no other
// pattern.
#include "models/families/llama_like.h"

namespace toy {

Family smollm3_family() {
  Family f = llama_like("smollm3", RopePairing::neighbour);
  f.defaults.layers.assign(4, LayerSpec{});
  f.defaults.layers.back().rope = LayerRope::none;
  return f;
}

}  // namespace toy

// `qwen3moe` (Yang et al. 2025): Qwen 3 with experts.
#include "models/families/llama_like.h"

namespace toy {

Family qwen3moe_family() {
  Family f = llama_like("qwen3moe", RopePairing::half);
  f.write = [](MetadataWriter& w, const ModelSpec& m) {
    write_llama_like(w, m);
    w.u32("expert_feed_forward_length", m.layers.front().d_ff);
  };
  f.check = [](const ModelSpec& m) { require_like_layers(m, kOnceForAll), require_like_layers(m, {"d_ff"}); };
  f.holds.insert(f.holds.end(), {"experts", "experts_used"});
  f.defaults.layers = {LayerSpec{.qk_norm = LayerSpec::head_norm}};
  return f;
}

}  // namespace toy

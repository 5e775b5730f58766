// `olmoe` (Muennighoff et al. 2024): Llama with experts, whose weights are not divided by their sum, and norms of all
// heads of q and k as one.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace olmoe {
namespace {

void check_heads(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_full_width(m);
  require_own_keys(m);
}

}  // namespace
}  // namespace olmoe

Family olmoe_family() {
  Family f = llama_like("olmoe", RopePairing::half);
  f.check = olmoe::check_heads;
  f.holds.insert(f.holds.end(), {"experts", "experts_used"});
  std::erase(f.holds, "tied");
  f.defaults.tied = false;
  f.defaults.layers = {LayerSpec{.qk_norm = LayerSpec::row_norm, .experts = {.renormalized = false}}};
  return f;
}

}  // namespace toy

// `olmo2` (OLMo et al. 2024): norms after attention and ffn instead of before, and of all heads of q and k as one. Also
// OLMo 3, where three of four layers have a window, and nothing stretches their rotary positions.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace olmo2 {
namespace {

bool is_stretched(const RopeSpec& r) { return r.scaling != RopeSpec::Scaling::none || r.attn_factor != 1; }

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_windows(metadata, m, 0, 4);
  for (LayerSpec& l : m.layers)
    if (l.window > 0 && is_stretched(m.rope)) l.rope = LayerRope::local, m.local_rope_base = m.rope.base;
  metadata.ignore("rope.freq_base_swa", double(m.rope.base));
}

void check_layers(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_full_width(m);
  for (const LayerSpec& l : m.layers) {
    const bool local = l.window > 0 && is_stretched(m.rope);
    check(l.rope == (local ? LayerRope::local : LayerRope::global),
          "model {}: in the architecture olmo2, layers with a window have local rope where rope is scaled, and all "
          "others global rope",
          m.name);
    check(!local || m.local_rope_base == m.rope.base,
          "model {}: local_rope_base is {}; in the architecture olmo2 it is rope_base, {}", m.name, m.local_rope_base,
          m.rope.base);
  }
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  if (window_of(m) > 0) write_windows(w, m);
}

}  // namespace
}  // namespace olmo2

Family olmo2_family() {
  Family f = llama_like("olmo2", RopePairing::half);
  f.read = olmo2::read, f.write = olmo2::write, f.check = olmo2::check_layers;
  f.holds.insert(f.holds.end(), {"window", "rope", "local_rope_base"});
  std::erase(f.holds, "tied");
  f.defaults.tied = false;
  f.defaults.layers = {LayerSpec{.qk_norm = LayerSpec::row_norm}};
  for (LayerSpec& layer : f.defaults.layers) layer.norm_place = NormPlace::after;
  return f;
}

}  // namespace toy

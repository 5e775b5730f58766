// `gemma3` (Gemma Team 2025), its text part: a norm of each head of q and k in place of capped scores; five of six
// layers have a window and rotary positions of their own.
#include "models/families/gemma.h"
#include "toy/base/error.h"

namespace toy {
namespace gemma3 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_windows(metadata, m, 0, 6);
  m.local_rope_base = metadata.f32("rope.freq_base_swa", 10000);
  m.logit_softcap = metadata.f32("final_logit_softcapping", 0);
  for (LayerSpec& l : m.layers) {
    l.rope = l.window > 0 ? LayerRope::local : LayerRope::global;
    l.attention_scale = gemma_attention_scale(m, kLayersOfGemma3At27B);
  }
}

void check_layers(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_gemma_attention_scale(m, kLayersOfGemma3At27B);
  for (const LayerSpec& l : m.layers)
    check(l.rope == (l.window > 0 ? LayerRope::local : LayerRope::global),
          "model {}: in the architecture gemma3, layers with a window have local rope, and all others global rope",
          m.name);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_windows(w, m);
  w.f32("rope.freq_base_swa", m.local_rope_base);
  if (m.logit_softcap > 0) w.f32("final_logit_softcapping", m.logit_softcap);
}

}  // namespace
}  // namespace gemma3

Family gemma3_family() {
  Family f = gemma_like("gemma3");
  f.read = gemma3::read, f.write = gemma3::write, f.check = gemma3::check_layers;
  f.holds.insert(f.holds.end(), {"tied", "window", "rope", "local_rope_base", "attention_scale", "logit_softcap"});
  f.defaults.rope.base = 1e6f;
  LayerSpec l = f.defaults.layers.front();
  l.qk_norm = LayerSpec::head_norm, l.window = 4096, l.rope = LayerRope::local;
  f.defaults.layers.assign(6, l);
  f.defaults.layers.back().window = 0, f.defaults.layers.back().rope = LayerRope::global;
  for (LayerSpec& layer : f.defaults.layers) layer.norm_place = NormPlace::both;
  return f;
}

}  // namespace toy

// `gemma2` (Gemma Team 2024): norms before and after attention and ffn, capped scores and logits, a window in every
// other layer.
#include "models/families/gemma.h"
#include "toy/base/error.h"

namespace toy {
namespace gemma2 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_windows(metadata, m, 4096, 2);
  const float softcap = metadata.f32("attn_logit_softcapping", 50);
  for (LayerSpec& l : m.layers)
    l.attention_softcap = softcap, l.attention_scale = gemma_attention_scale(m, kLayersOfGemma2At27B);
  m.logit_softcap = metadata.f32("final_logit_softcapping", 30);
  metadata.ignore("rope.freq_base_swa", double(m.rope.base));
}

void check_layers(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_gemma_attention_scale(m, kLayersOfGemma2At27B);
  const float softcap = m.layers.front().attention_softcap;
  check(softcap > 0 && m.logit_softcap > 0,
        "model {}: attention_softcap is {} and logit_softcap {}; in the architecture gemma2 both are above 0. A large "
        "one, such as 1e6, changes nothing",
        m.name, softcap, m.logit_softcap);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_windows(w, m);
  w.f32("attn_logit_softcapping", m.layers.front().attention_softcap);
  w.f32("final_logit_softcapping", m.logit_softcap);
}

}  // namespace
}  // namespace gemma2

Family gemma2_family() {
  Family f = gemma_like("gemma2");
  f.read = gemma2::read, f.write = gemma2::write, f.check = gemma2::check_layers;
  f.holds.insert(f.holds.end(), {"window", "attention_scale", "attention_softcap", "logit_softcap"});
  f.defaults.logit_softcap = 30;
  LayerSpec l = f.defaults.layers.front();
  l.attention_softcap = 50;
  f.defaults.layers = {l, l};
  f.defaults.layers.front().window = 4096;
  for (LayerSpec& layer : f.defaults.layers) layer.norm_place = NormPlace::both;
  return f;
}

}  // namespace toy

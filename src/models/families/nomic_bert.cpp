// `nomic-bert` (Nussbaum et al. 2024): BERT with rotary positions, gated ffns and no biases but those of norms.
#include <fmt/format.h>

#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace nomic_bert {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_encoder(metadata, m);
  for (LayerSpec& l : m.layers) l.fused_qkv = file.find("blk.0.attn_qkv.weight") != nullptr;
  read_token_types(metadata, m);
  if (!file.has(metadata.key("rope.freq_base")))
    metadata.warn(fmt::format("{} is absent, and 10000 is taken; the published models have 1000",
                              metadata.key("rope.freq_base")));
  m.rope.base = metadata.f32("rope.freq_base", 10000);
  metadata.refuse_unknown();
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_encoder(w, m);
  write_token_types(w, m);
  w.f32("rope.freq_base", m.rope.base);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
  require_token_types(m);
}

}  // namespace
}  // namespace nomic_bert

Family nomic_bert_family() {
  Family f{.defaults = {},
           .read = nomic_bert::read,
           .write = nomic_bert::write,
           .holds = {"token_types", "fused_qkv", "rope_base"},
           .check = nomic_bert::check_model};
  f.defaults.architecture = "nomic-bert";
  f.defaults.norm = NormKind::layer;
  f.defaults.norm_eps = 1e-12f;
  f.defaults.rope = {.pairing = RopePairing::half, .base = 1000};
  f.defaults.causal = false;
  f.defaults.token_types = 2;
  f.defaults.embedding_norm = true;
  f.defaults.final_norm = false;
  f.defaults.layers = {LayerSpec{.norm_place = NormPlace::sum}};
  return f;
}

}  // namespace toy

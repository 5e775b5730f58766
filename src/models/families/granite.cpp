// `granite` and `granitemoe` (Granite Team 2024): Llama with factors of embeddings, scores, residuals and logits; the
// second with experts. `granitehybrid` (Granite 4, Bamba): either with Mamba-2 in most layers.
#include "models/families/llama_like.h"

namespace toy {
namespace granite {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  m.rope.factors = read_factors(metadata.file(), kRopeFactors, turned_of(m.layers.front()) / 2);
  const bool turns = metadata.flag("rope.scaling.finetuned", true);
  const float scale = metadata.f32("attention.scale", 0);
  for (LayerSpec& l : m.layers) l.attention_scale = scale, l.rope = turns ? LayerRope::global : LayerRope::none;
  m.embedding_scale = metadata.f32("embedding_scale", 1);
  m.residual_scale = metadata.f32("residual_scale", 1);
  m.logit_divisor = holds(m, "mixer") ? metadata.f32("logit_scale", 1) : metadata.f32("logit_scale");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  const LayerSpec& l = m.layers.front();
  if (l.rope == LayerRope::none || holds(m, "mixer")) w.flag("rope.scaling.finetuned", l.rope != LayerRope::none);
  if (l.attention_scale > 0) w.f32("attention.scale", l.attention_scale);
  w.f32("embedding_scale", m.embedding_scale);
  w.f32("residual_scale", m.residual_scale);
  w.f32("logit_scale", m.logit_divisor);
  write_factors(w, kRopeFactors, m.rope.factors);
}

void read_hybrid(Metadata& metadata, ModelSpec& m) {
  read(metadata, m);
  read_mixers(m, MixerKind::mamba2);
  read_mamba2(metadata, m);
}

void write_hybrid(MetadataWriter& w, const ModelSpec& m) {
  write(w, m);
  write_mixers(w, m);
  write_mamba2(w, m);
}

void check_hybrid(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_like_layers(m, {"rope", "rope_dims"});
  require_mixers(m, MixerKind::mamba2);
  require_mamba2(m);
  require_twice_the_width(m);
  require_ffn(m);
}

Family family(std::string architecture) {
  Family f = llama_like(std::move(architecture), RopePairing::neighbour);
  f.read = read, f.write = write;
  f.holds.insert(f.holds.end(),
                 {"rope", "rope_factors", "attention_scale", "embedding_scale", "residual_scale", "logit_divisor"});
  f.check = [](const ModelSpec& m) {
    require_like_layers(m, kOnceForAll);
    require_like_layers(m, {"rope"});
  };
  f.extra_tensors = [](const ModelSpec&) { return std::vector<std::string>{kRopeFactors}; };
  return f;
}

}  // namespace
}  // namespace granite

Family granite_family() {
  Family f = granite::family("granite");
  f.holds.push_back("biases");
  return f;
}

Family granitehybrid_family() {
  Family f = granite::family("granitehybrid");
  f.read = granite::read_hybrid, f.write = granite::write_hybrid, f.check = granite::check_hybrid;
  std::erase(f.holds, "fused_qkv");
  f.holds.insert(f.holds.end(), {"experts", "experts_used", "shared_d_ff", "mixer", "mamba2_heads", "mamba2_width",
                                 "mamba2_state", "mamba2_groups", "conv_width", "rope_dims"});
  const LayerSpec attention{.rope = LayerRope::none};
  LayerSpec mamba = attention;
  mamba.mixer = MambaSizes{.conv = 4};
  f.defaults.layers = {mamba, mamba, mamba, attention};
  return f;
}

Family granitemoe_family() {
  Family f = granite::family("granitemoe");
  f.holds.insert(f.holds.end(), {"experts", "experts_used", "shared_d_ff"});
  return f;
}

}  // namespace toy

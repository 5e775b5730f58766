// `lfm2` (Liquid AI 2025): convolutions of three rows between two gates, and attention with QK-norm.
#include "models/llama_like.h"

namespace toy {
namespace lfm2 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_mixers(m, MixerKind::short_conv);
  for (LayerSpec& l : m.layers) l.conv = metadata.u32("shortconv.l_cache");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_mixers(w, m);
  w.u32("shortconv.l_cache", m.layers.front().conv);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_like_layers(m, {"conv_width"});
  require_mixers(m, MixerKind::short_conv);
  require_full_width(m);
}

}  // namespace
}  // namespace lfm2

Family lfm2_family() {
  Family f = llama_like("lfm2", RopePairing::half);
  f.read = lfm2::read, f.write = lfm2::write, f.check = lfm2::check_model;
  std::erase(f.holds, "fused_qkv");
  f.holds.insert(f.holds.end(), {"mixer", "conv_width"});
  f.defaults.output_norm_is_embedding_norm = true;
  f.defaults.rope.base = 1e6f;
  const LayerSpec attention{.conv = 3, .qk_norm = LayerSpec::head_norm};
  LayerSpec conv = attention;
  conv.mixer = MixerKind::short_conv;
  f.defaults.layers = {conv, conv, attention};
  return f;
}

}  // namespace toy

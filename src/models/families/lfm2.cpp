// `lfm2` and `lfm2moe` (Liquid AI 2025): convolutions of three rows between two gates, and attention with QK-norm; the
// second has experts in all layers but the first ones.
#include <algorithm>

#include "models/families/llama_like.h"

namespace toy {
namespace lfm2 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_mixers(m, MixerKind::short_conv);
  set_sizes(m, ShortConv{metadata.u32("shortconv.l_cache")});
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_mixers(w, m);
  w.u32("shortconv.l_cache", sizes_of<ShortConv>(m).width);
}

void check_mixers(const ModelSpec& m) {
  require_like_layers(m, {"d_head", "attention_scale", "attention_softcap", "conv_width"});
  require_mixers(m, MixerKind::short_conv);
  require_full_width(m);
}

void read_experts(Metadata& metadata, ModelSpec& m) {
  read(metadata, m);
  metadata.require("expert_gating_func", 2);
  const size_t dense = size_t(metadata.u32("leading_dense_block_count"));
  const std::vector<int64_t> widths = metadata.u32s("feed_forward_length", m.layers.size());
  for (size_t i = 0; i < std::min(dense, m.layers.size()); ++i) {
    LayerSpec& l = m.layers[i];
    l.d_ff = widths[i], l.experts.count = l.experts.used = 0;
  }
}

void write_experts(MetadataWriter& w, const ModelSpec& m) {
  write(w, m);
  w.u32("feed_forward_length", m.layers.front().d_ff);
  w.u32("expert_feed_forward_length", m.layers.back().d_ff);
  w.u32("leading_dense_block_count", int64_t(dense_layers(m)));
  w.u32("expert_gating_func", 2);  // sigmoid
}

void check_experts(const ModelSpec& m) {
  check_mixers(m);
  require_dense_first(m);
}

}  // namespace
}  // namespace lfm2

Family lfm2_family() {
  Family f = llama_like("lfm2", RopePairing::half);
  f.read = lfm2::read, f.write = lfm2::write, f.check = lfm2::check_mixers;
  std::erase(f.holds, "fused_qkv");
  f.holds.insert(f.holds.end(), {"mixer", "conv_width"});
  f.defaults.output_norm_is_embedding_norm = true;
  f.defaults.rope.base = 1e6f;
  const LayerSpec attention{.qk_norm = LayerSpec::head_norm};
  LayerSpec conv = attention;
  conv.mixer = ShortConv{3};
  f.defaults.layers = {conv, conv, attention};
  return f;
}

Family lfm2moe_family() {
  Family f = lfm2_family();
  f.defaults.architecture = "lfm2moe";
  f.read = lfm2::read_experts, f.write = lfm2::write_experts, f.check = lfm2::check_experts;
  f.holds.insert(f.holds.end(), {"experts", "experts_used"});
  for (LayerSpec& l : f.defaults.layers) l.experts = {.score = Experts::sigmoid, .choice_bias = true, .sum_eps = 1e-6f};
  return f;
}

}  // namespace toy

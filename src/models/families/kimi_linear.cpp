// `kimi-linear` (Kimi Team 2025): Kimi Delta Attention in most layers, latent attention without positions in the
// others; experts in all layers but the first ones.
#include <algorithm>

#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace kimi_linear {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  const size_t n = m.layers.size();
  const std::string& path = metadata.file().path();
  const int64_t heads = metadata.u32("attention.head_count");
  const KimiDelta delta{.heads = heads, .width = metadata.u32("kda.head_dim"), .conv = metadata.u32("ssm.conv_kernel")};
  LatentSizes latent{.width = metadata.u32("attention.kv_lora_rank"),
                     .shared_key = metadata.u32("rope.dimension_count"),
                     .value = metadata.u32("attention.value_length_mla")};
  latent.key = metadata.u32("attention.key_length_mla") - latent.shared_key;
  metadata.require("attention.key_length", latent.width + latent.shared_key);
  metadata.ignore("attention.value_length");
  metadata.ignore("rope.freq_base");  // nothing turns
  Experts experts = m.layers.front().experts;
  const int64_t width = metadata.u32("expert_feed_forward_length");
  experts.count = metadata.u32("expert_count"), experts.used = metadata.u32("expert_used_count");
  const int64_t shared = metadata.u32("expert_shared_count");
  check(shared >= 1 && shared <= 4096, "{}: {} is {}, expected 1 to 4096", path, metadata.key("expert_shared_count"),
        shared);
  experts.shared_d_ff = shared * width;
  experts.scale = metadata.f32("expert_weights_scale", 1);
  if (experts.scale == 0) experts.scale = 1;  // llama.cpp: there is none
  check(metadata.flag("expert_weights_norm", true), "{}: {} is false; only true is supported here", path,
        metadata.key("expert_weights_norm"));
  metadata.require("expert_gating_func", 2);  // sigmoid
  metadata.require("expert_group_count", 1);
  metadata.require("expert_group_used_count", 1);
  const size_t dense = size_t(metadata.u32("leading_dense_block_count"));
  const std::vector<int64_t> dense_widths = metadata.u32s("feed_forward_length", n),
                             kv_heads = metadata.u32s("attention.head_count_kv", n);
  for (size_t i = 0; i < n; ++i) {
    LayerSpec& l = m.layers[i];
    l.mixer = kv_heads[i] > 0 ? MixerSpec(latent) : MixerSpec(delta);
    l.heads = l.kv_heads = heads, l.d_head = delta.width;
    l.experts = experts, l.d_ff = width;
    if (i >= dense) continue;
    l.d_ff = dense_widths[i];
    l.experts.count = l.experts.used = l.experts.shared_d_ff = 0;
  }
  m.norm_eps = metadata.f32("attention.layer_norm_rms_epsilon");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec &first = m.layers.front(), &last = m.layers.back();
  const auto s = sizes_of<LatentSizes>(m);
  const auto delta = sizes_of<KimiDelta>(m);
  std::vector<int64_t> kv_heads;
  for (const LayerSpec& l : m.layers) kv_heads.push_back(l.mixer == MixerKind::latent ? 1 : 0);
  w.u32("attention.head_count", first.heads);
  w.u32s("attention.head_count_kv", kv_heads);
  w.u32("kda.head_dim", delta.width);
  w.u32("ssm.conv_kernel", delta.conv);
  w.u32("attention.kv_lora_rank", s.width);
  w.u32("rope.dimension_count", s.shared_key);
  w.u32("attention.key_length", s.width + s.shared_key);
  w.u32("attention.value_length", s.width);
  w.u32("attention.key_length_mla", s.key + s.shared_key);
  w.u32("attention.value_length_mla", s.value);
  w.u32("feed_forward_length", first.d_ff);
  w.u32("expert_feed_forward_length", last.d_ff);
  w.u32("expert_count", last.experts.count);
  w.u32("expert_used_count", last.experts.used);
  w.u32("expert_shared_count", last.experts.shared_d_ff / last.d_ff);
  w.u32("leading_dense_block_count", int64_t(dense_layers(m)));
  w.f32("expert_weights_scale", last.experts.scale);
  w.u32("expert_gating_func", 2);  // sigmoid
  w.f32("attention.layer_norm_rms_epsilon", m.norm_eps);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, {"n_heads", "delta_value_heads", "delta_width", "conv_width", "latent_width", "latent_key",
                          "latent_shared_key", "latent_value"});
  require_dense_first(m);
  const auto count = [&](MixerKind kind) {
    return std::count_if(m.layers.begin(), m.layers.end(), [&](const LayerSpec& l) { return l.mixer == kind; });
  };
  const auto delta = count(MixerKind::kimi_delta), latent = count(MixerKind::latent);
  check(delta > 0 && latent > 0 && delta + latent == std::ptrdiff_t(m.layers.size()),
        "model {}: {} layers are kimi_delta and {} latent, of {}; the architecture {} needs both, and has no others",
        m.name, delta, latent, m.layers.size(), m.architecture);
  const LayerSpec &l = m.layers.front(), &last = m.layers.back();
  const int64_t heads = sizes_of<KimiDelta>(m).heads;
  check(l.heads == heads, "model {}: n_heads is {} and delta_value_heads {}; in the architecture {} they agree", m.name,
        l.heads, heads, m.architecture);
  check(last.experts.shared_d_ff > 0 && last.experts.shared_d_ff % last.d_ff == 0,
        "model {}: shared_d_ff is {}, expected a multiple of d_ff, {}", m.name, last.experts.shared_d_ff, last.d_ff);
}

}  // namespace
}  // namespace kimi_linear

Family kimi_linear_family() {
  Family f{.defaults = {}, .read = kimi_linear::read, .write = kimi_linear::write};
  f.check = kimi_linear::check_model;
  f.holds = {"mixer",        "delta_value_heads", "delta_width",       "conv_width",
             "latent_width", "latent_key",        "latent_shared_key", "latent_value",
             "experts",      "experts_used",      "shared_d_ff",       "experts_scale"};
  f.defaults.architecture = "kimi-linear";
  f.defaults.tied = false;
  f.defaults.norm_eps = 1e-5f;
  LayerSpec delta{.mixer = KimiDelta{.conv = 4}, .rope = LayerRope::none};
  delta.experts = {.score = Experts::sigmoid, .choice_bias = true};
  LayerSpec latent = delta;
  latent.mixer = MixerKind::latent;
  f.defaults.layers = {delta, delta, delta, latent};
  return f;
}

}  // namespace toy

// `nemotron_h` and `nemotron_h_moe` (NVIDIA 2025): layers of one thing each, Mamba-2, attention without positions, or
// an ffn with the square of relu; in the second, experts instead of the ffn.
#include <fmt/format.h>

#include <algorithm>

#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace nemotron_h {
namespace {

constexpr const char *kEps = "attention.layer_norm_rms_epsilon", *kOtherEps = "attention.layer_norm_epsilon";

bool has_experts(const ModelSpec& m) { return holds(m, "experts"); }

bool is_ffn(const LayerSpec& l) { return l.mixer == MixerKind::none; }

// Of all layers of experts.
Experts read_experts(Metadata& metadata, Experts e) {
  e.count = metadata.u32("expert_count"), e.used = metadata.u32("expert_used_count");
  e.renormalized = metadata.flag("expert_weights_norm", false);
  e.scale = metadata.f32("expert_weights_scale", 1);
  if (e.scale == 0) e.scale = 1;  // llama.cpp: there is none
  e.shared_d_ff = metadata.u32("expert_shared_feed_forward_length");
  e.latent = metadata.u32("moe_latent_size", 0);
  metadata.require("expert_gating_func", 2);  // sigmoid
  metadata.require("expert_shared_count", 1);
  metadata.require("expert_group_count", 1);
  metadata.require("expert_group_used_count", 1);
  return e;
}

void read(Metadata& metadata, ModelSpec& m) {
  const size_t n = m.layers.size();
  const gguf::File& file = metadata.file();
  const float other_eps = metadata.f32(kOtherEps);
  m.norm_eps = metadata.f32(kEps, other_eps);
  const std::vector<int64_t> heads = metadata.u32s("attention.head_count", n),
                             kv_heads = metadata.u32s("attention.head_count_kv", n),
                             d_ff = metadata.u32s("feed_forward_length", n);
  Experts experts = m.layers.front().experts;
  if (has_experts(m)) experts = read_experts(metadata, experts);
  for (const char* key : {"rope.dimension_count", "rope.scaling.finetuned", "rope.freq_base", "attention.scale"})
    metadata.ignore(key);  // nothing turns
  for (size_t i = 0; i < n; ++i) {
    check(heads[i] > 0, "{}: {} is 0", file.path(), metadata.key("attention.head_count"));
    check(kv_heads[i] == 0 || d_ff[i] == 0, "{}: layer {} has both attention and an ffn; expected one", file.path(), i);
    LayerSpec& l = m.layers[i];
    l.mixer = kv_heads[i] > 0 ? MixerKind::attention : d_ff[i] > 0 ? MixerKind::none : MixerKind::mamba2;
    l.heads = heads[i], l.kv_heads = *std::max_element(kv_heads.begin(), kv_heads.end());
    if (kv_heads[i] > 0) l.kv_heads = kv_heads[i];
    l.d_head = metadata.u32("attention.key_length", m.d_model / l.heads);
    l.d_ff = d_ff[i];
    if (is_ffn(l) && has_experts(m)) l.d_ff = metadata.u32("expert_feed_forward_length");
    l.experts = experts;
    if (!is_ffn(l)) l.experts.count = l.experts.used = l.experts.shared_d_ff = 0;
    const auto has = [&](const char* name) { return file.find(fmt::format("blk.{}.{}.bias", i, name)) != nullptr; };
    l.bias.q = has("attn_q"), l.bias.up = has("ffn_up"), l.bias.down = has("ffn_down");
  }
  read_mamba2(metadata, m);
  metadata.require("attention.value_length", m.layers.front().d_head);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  std::vector<int64_t> d_ff, heads;
  for (const LayerSpec& l : m.layers) d_ff.push_back(is_ffn(l) ? l.d_ff : 0), heads.push_back(l.heads);
  w.u32s("feed_forward_length", d_ff);
  w.u32s("attention.head_count", heads);
  write_mixers(w, m);
  const LayerSpec& l = m.layers.front();
  w.u32("attention.key_length", l.d_head);
  w.u32("attention.value_length", l.d_head);
  w.u32("rope.dimension_count", l.d_head);
  w.flag("rope.scaling.finetuned", false);
  w.f32(kEps, m.norm_eps);
  w.f32(kOtherEps, m.norm_eps);
  write_mamba2(w, m);
  const auto ffn = std::find_if(m.layers.begin(), m.layers.end(), is_ffn);
  if (!has_experts(m) || ffn == m.layers.end()) return;
  const Experts& e = ffn->experts;
  w.u32("expert_count", e.count);
  w.u32("expert_used_count", e.used);
  w.u32("expert_feed_forward_length", ffn->d_ff);
  w.u32("expert_shared_feed_forward_length", e.shared_d_ff);
  w.u32("expert_shared_count", 1);
  w.u32("expert_group_count", 1);
  w.flag("expert_weights_norm", e.renormalized);
  w.f32("expert_weights_scale", e.scale);
  if (e.latent > 0) w.u32("moe_latent_size", e.latent);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, {"d_head", "experts_renormalized", "experts_scale", "experts_latent"});
  const auto count = [&](MixerKind kind) {
    return std::count_if(m.layers.begin(), m.layers.end(), [&](const LayerSpec& l) { return l.mixer == kind; });
  };
  const auto mamba = count(MixerKind::mamba2), attention = count(MixerKind::attention), ffn = count(MixerKind::none);
  check(mamba > 0 && attention > 0 && (ffn > 0 || !has_experts(m)) &&
            mamba + attention + ffn == std::ptrdiff_t(m.layers.size()),
        "model {}: layers of mamba2, attention and none are {}, {} and {}, of {}; the architecture {} needs them, and "
        "has "
        "no others",
        m.name, mamba, attention, ffn, m.layers.size(), m.architecture);
  require_mamba2(m);
  const auto first = std::find_if(m.layers.begin(), m.layers.end(), is_ffn);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const LayerSpec& l = m.layers[i];
    const Biases& b = l.bias;
    check(!b.k && !b.v && !b.out && !b.gate,
          "model {}: layer {}: biases; in the architecture {} only attn_q, ffn_up and ffn_down have some", m.name, i,
          m.architecture);
    check(is_ffn(l) || l.d_ff == 0,
          "model {}: layer {}: d_ff is {}; in the architecture {} a layer with a mixer has no ffn, 0", m.name, i,
          l.d_ff, m.architecture);
    if (!is_ffn(l) || !has_experts(m)) continue;
    check(
        l.experts == first->experts && l.d_ff == first->d_ff && l.experts.count > 0 && l.experts.shared_d_ff > 0,
        "model {}: layer {}: in the architecture {} every ffn has experts and a shared one (shared_d_ff), and all are "
        "alike",
        m.name, i, m.architecture);
  }
}

Family family(const char* architecture) {
  Family f{.defaults = {}, .read = read, .write = write};
  f.check = check_model;
  f.holds = {"tied", "mixer", "biases", "mamba2_heads", "mamba2_width", "mamba2_state", "mamba2_groups", "conv_width"};
  f.defaults.architecture = architecture;
  LayerSpec mamba{.mixer = MambaSizes{.conv = 4}, .rope = LayerRope::none, .ffn = FfnKind::relu2};
  LayerSpec ffn = mamba, attention = mamba;
  ffn.mixer = MixerKind::none, attention.mixer = MixerKind::attention;
  f.defaults.layers = {mamba, ffn, attention};
  return f;
}

}  // namespace
}  // namespace nemotron_h

Family nemotron_h_family() { return nemotron_h::family("nemotron_h"); }

Family nemotron_h_moe_family() {
  Family f = nemotron_h::family("nemotron_h_moe");
  f.holds.insert(f.holds.end(),
                 {"experts", "experts_used", "shared_d_ff", "experts_renormalized", "experts_scale", "experts_latent"});
  for (LayerSpec& l : f.defaults.layers) l.experts = {.score = Experts::sigmoid, .choice_bias = true};
  return f;
}

}  // namespace toy

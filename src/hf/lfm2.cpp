#include "hf/lfm2.h"

#include <algorithm>

#include "hf/dimensions.h"
#include "models/families/llama_like.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr MixerName kLfm2Layers[] = {{"conv", MixerKind::short_conv}, {"full_attention", MixerKind::attention}};

std::vector<MixerKind> mixers_of_lfm2(const Config& c, size_t layers) {
  std::vector<MixerKind> listed, of_indices(layers, MixerKind::short_conv);
  if (c.has("layer_types")) listed = listed_mixers(c, "layer_types", layers, kLfm2Layers);
  if (!c.has("full_attn_idxs")) {
    check(!listed.empty(), "{}: neither 'layer_types' nor 'full_attn_idxs' is there", c.path());
    return listed;
  }
  for (const int64_t layer : c.integers("full_attn_idxs")) {
    check(layer < int64_t(layers), "{}: 'full_attn_idxs' has {}, but there are {} layers", c.path(), layer, layers);
    of_indices[size_t(layer)] = MixerKind::attention;
  }
  if (!listed.empty()) require_same_mixers(c, listed, "layer_types", of_indices, "full_attn_idxs");
  return of_indices;
}

void read_any_lfm2(const Config& c, ModelSpec& m) {
  read_widths(c, m, "intermediate_size", "norm_eps");
  m.tied = c.flag("tie_embedding", m.tied);
  read_model_rope(c, m);
  const std::vector<MixerKind> mixers = mixers_of_lfm2(c, m.layers.size());
  for (size_t i = 0; i < m.layers.size(); ++i) m.layers[i].mixer = mixers[i];
  set_sizes(m, ShortConv{c.integer("conv_L_cache")});
  c.require("conv_bias", false);
}

// The width of the ffn, which most configs of LFM2 state as that of one with two matrices.
int64_t ffn_width(const Config& c) {
  const int64_t stated = c.integer(c.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
  if (!c.flag("block_auto_adjust_ff_dim", true)) return stated;
  const int64_t width = 2 * stated / 3, multiple = c.integer("block_multiple_of");
  const json* value = c.find("block_ffn_dim_multiplier");
  if (!value) return width;
  const double factor = json_number<double>(*value, c.path() + ": 'block_ffn_dim_multiplier'", 0, 1024);
  check(multiple >= 1, "{}: 'block_multiple_of' is {}", c.path(), multiple);
  return (int64_t(factor * double(width)) + multiple - 1) / multiple * multiple;
}

void write_any_lfm2(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  for (const char* key : {"rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias"}) c.erase(key);
  c["norm_eps"] = shortest(m.norm_eps);
  c["layer_types"] = mixer_names(m, kLfm2Layers);
  c["conv_L_cache"] = sizes_of<ShortConv>(m).width, c["conv_bias"] = false;
}

}  // namespace

void read_lfm2(const Config& c, Reading& r) {
  read_any_lfm2(c, r.spec);
  for (LayerSpec& l : r.spec.layers) l.d_ff = ffn_width(c);
}
void write_lfm2(ordered_json& c, const ModelSpec& m) {
  write_any_lfm2(c, m);
  c["block_auto_adjust_ff_dim"] = false;
}

void read_lfm2moe(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  read_any_lfm2(c, m);
  c.require("use_expert_bias", true);
  c.require("norm_topk_prob", true);  // a GGUF cannot say anything else
  c.require("routed_scaling_factor", 1.0);
  const int64_t dense = c.integer("num_dense_layers");
  check(dense < int64_t(m.layers.size()), "{}: 'num_dense_layers' is {} of {} layers, which leaves none with experts",
        c.path(), dense, m.layers.size());
  read_experts(c, m, "num_experts");
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    if (int64_t(i) < dense)
      l.experts.count = l.experts.used = 0;
    else
      l.d_ff = c.integer("moe_intermediate_size");
  }
}
void write_lfm2moe(ordered_json& c, const ModelSpec& m) {
  write_any_lfm2(c, m);
  const LayerSpec& last = m.layers.back();
  c["num_dense_layers"] = dense_layers(m), c["moe_intermediate_size"] = last.d_ff;
  c["num_experts"] = last.experts.count, c["num_experts_per_tok"] = last.experts.used;
  c["use_expert_bias"] = true, c["norm_topk_prob"] = true, c["routed_scaling_factor"] = 1.0;
}

}  // namespace toy::hf

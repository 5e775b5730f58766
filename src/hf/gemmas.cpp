#include "hf/gemmas.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "hf/dimensions.h"
#include "hf/rope.h"
#include "models/families/families.h"
#include "models/families/gemma.h"
#include "toy/base/error.h"

namespace toy::hf {

using nlohmann::ordered_json;

namespace {

// Where the file's factor of scores is another, q has to carry it.
void read_query_scale(const Config& c, Reading& r, size_t layers_of_27b) {
  const float in_file = gemma_attention_scale(r.spec, layers_of_27b);
  const LayerSpec& first = r.spec.layers.front();
  const double own = in_file > 0 ? double(in_file) : 1 / std::sqrt(double(first.d_head));
  const double wanted = 1 / std::sqrt(double(c.number("query_pre_attn_scalar")));
  check(std::isfinite(wanted), "{}: 'query_pre_attn_scalar' is not a positive number", c.path());
  if (std::abs(wanted / own - 1) > 1e-6) r.q_scale = float(wanted / own);
  for (LayerSpec& l : r.spec.layers) l.attention_scale = in_file;
}
void write_query_scale(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  const double scale = double(l.attention_scale);
  c["query_pre_attn_scalar"] = scale > 0 ? std::llround(1 / (scale * scale)) : l.d_head;
}

// Of each layer that differs. transformers pads the numbers of layers with zeros, so that all have as many digits.
std::vector<Config> per_layer_configs(const Config& c, size_t layers) {
  std::vector<Config> list(layers);
  const Config each = c.object("per_layer_config");
  for (const auto& [key, value] : each.values().items()) {
    size_t layer = layers;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    check(error == std::errc() && end == key.data() + key.size() && layer < layers,
          "{}: '{}' is not the number of a layer, 0 to {}", each.path(), key, layers - 1);
    list[layer] = each.object(key);
  }
  return list;
}

// What layers without a window have: of each such layer in `per_layer_config`, or once for all of them.
void read_full_layers(const Config& c, ModelSpec& m, bool k_is_v) {
  const std::vector<Config> each = per_layer_configs(c, m.layers.size());
  const int64_t width = c.integer("global_head_dim", 512);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    if (l.window == 0 && !c.has("per_layer_config")) {
      l.d_head = width;
      if (k_is_v) l.kv_heads = c.integer("num_global_key_value_heads", l.kv_heads);
    }
    const Config& own = each[i];
    for (const auto& [key, value] : own.values().items())
      check(key == "head_dim" || key == "num_key_value_heads", "{}: '{}' is not supported there", own.path(), key);
    l.d_head = own.integer("head_dim", l.d_head), l.kv_heads = own.integer("num_key_value_heads", l.kv_heads);
  }
}

void read_gemma4_rope(const Config& c, ModelSpec& m) {
  const auto full = std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.window == 0; });
  if (full != m.layers.end()) read_rope(rope_parameters(c, "full_attention"), m.context, full->d_head, m.rope);
  RopeSpec local;
  read_rope(rope_parameters(c, "sliding_attention"), m.context, c.integer("head_dim"), local);
  check(local.scaling == RopeSpec::Scaling::none && local.factors.empty() && local.dims == 0,
        "{}: rope of layers with a window is scaled or turns a part of a head, which is not supported", c.path());
  m.local_rope_base = local.base;
}

}  // namespace

void write_gemma(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  c["hidden_activation"] = c["hidden_act"];
}

void read_gemma2(const Config& c, Reading& r) {
  read_llama(c, r);
  read_windows(c, r.spec, 2);
  read_query_scale(c, r, kLayersOfGemma2At27B);
  constexpr float kNone = 1e6f;  // changes nothing; a GGUF of gemma2 has to say something
  r.spec.logit_softcap = c.number("final_logit_softcapping", kNone);
  for (LayerSpec& l : r.spec.layers) l.attention_softcap = c.number("attn_logit_softcapping", kNone);
}
void write_gemma2(ordered_json& c, const ModelSpec& m) {
  write_gemma(c, m);
  write_windows(c, m);
  write_query_scale(c, m);
  c["attn_logit_softcapping"] = shortest(m.layers.front().attention_softcap);
  c["final_logit_softcapping"] = shortest(m.logit_softcap);
}

namespace {

// What Gemma 3 and EmbeddingGemma have in common.
void read_gemma3_like(const Config& c, Reading& r, size_t layers_of_27b) {
  read_llama(c, r);
  ModelSpec& m = r.spec;
  read_windows(c, m, c.integer(c.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern"));
  read_query_scale(c, r, layers_of_27b);
  RopeSpec local;
  read_rope(rope_parameters(c, "sliding_attention", "rope_local_base_freq", ""), m.context, m.layers.front().d_head,
            local);
  check(local.scaling == RopeSpec::Scaling::none && local.factors.empty(),
        "{}: rope of layers with a window is scaled, which is not supported", c.path());
  m.local_rope_base = local.base;
  for (LayerSpec& l : m.layers) l.rope = l.window > 0 ? LayerRope::local : LayerRope::global;
  check(!c.has("attn_logit_softcapping"), "{}: 'attn_logit_softcapping' is not supported in gemma3", c.path());
}

}  // namespace

void read_gemma3(const Config& c, Reading& r) {
  read_gemma3_like(c, r, kLayersOfGemma3At27B);
  r.spec.logit_softcap = c.number("final_logit_softcapping", 0);
}
void write_gemma3(ordered_json& c, const ModelSpec& m) {
  write_gemma(c, m);
  write_windows(c, m);
  write_query_scale(c, m);
  c["rope_local_base_freq"] = shortest(m.local_rope_base);
  c["final_logit_softcapping"] = nullptr;
  if (m.logit_softcap > 0) c["final_logit_softcapping"] = shortest(m.logit_softcap);
}

void read_gemma_embedding(const Config& c, Reading& r) {
  read_gemma3_like(c, r, 0);
  for (LayerSpec& l : r.spec.layers)
    if (l.window > 0) l.window = one_side(l.window);
}
void write_gemma_embedding(ordered_json& c, const ModelSpec& m) {
  ModelSpec in_file = m;
  for (LayerSpec& l : in_file.layers)
    if (l.window > 0) l.window = both_sides(l.window);
  write_gemma3(c, in_file);
  c["use_bidirectional_attention"] = true;
}

void read_gemma4(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  read_widths(c, m);
  read_windows(c, m, 6);
  check(!c.flag("enable_moe_block", false),
        "{}: 'enable_moe_block' is true: Gemma 4 with experts is not supported, only its dense models", c.path());
  check(c.text("use_bidirectional_attention", "") != "all", "{}: 'use_bidirectional_attention' is not supported",
        c.path());
  c.require("attention_bias", false);
  const bool k_is_v = c.flag("attention_k_eq_v", false), wide = c.flag("use_double_wide_mlp", false);
  read_full_layers(c, m, k_is_v);
  const int64_t layers = int64_t(m.layers.size()), shared = c.integer("num_kv_shared_layers", 0);
  for (int64_t i = 0; i < layers; ++i) {
    LayerSpec& l = m.layers[size_t(i)];
    l.rope = l.window > 0 ? LayerRope::local : LayerRope::global;
    l.shared_kv = i >= layers - shared;
    l.v_is_k = k_is_v && l.window == 0 && !l.shared_kv;
    if (l.shared_kv && wide) l.d_ff *= 2;
  }
  read_gemma4_rope(c, m);
  const auto width = c.values().find("hidden_size_per_layer_input");  // null is none
  m.layer_embedding = width == c.values().end() ? 256 : c.integer("hidden_size_per_layer_input", 0);
  if (m.layer_embedding > 0) c.require("vocab_size_per_layer_input", m.vocab);
  m.logit_softcap = c.number("final_logit_softcapping", 0);
}
void write_gemma4(ordered_json& c, const ModelSpec& m) {
  write_gemma(c, m);
  write_windows(c, m);
  const auto with = [&](auto is) {
    const auto it = std::find_if(m.layers.begin(), m.layers.end(), is);
    return it == m.layers.end() ? m.layers.front() : *it;
  };
  const LayerSpec local = with([](const LayerSpec& l) { return l.window > 0; });
  const LayerSpec full = with([](const LayerSpec& l) { return l.window == 0; });
  const LayerSpec shared = with([](const LayerSpec& l) { return l.shared_kv; });
  c["head_dim"] = local.d_head, c["num_key_value_heads"] = local.kv_heads;
  c["global_head_dim"] = full.d_head, c["attention_k_eq_v"] = full.v_is_k;
  c["num_global_key_value_heads"] = nullptr;
  if (full.v_is_k) c["num_global_key_value_heads"] = full.kv_heads;
  c["num_kv_shared_layers"] =
      std::count_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.shared_kv; });
  c["use_double_wide_mlp"] = shared.d_ff == 2 * m.layers.front().d_ff;
  c["hidden_size_per_layer_input"] = m.layer_embedding, c["vocab_size_per_layer_input"] = m.vocab;
  c["enable_moe_block"] = false;
  c["final_logit_softcapping"] = nullptr;
  if (m.logit_softcap > 0) c["final_logit_softcapping"] = shortest(m.logit_softcap);
  c.erase("rope_scaling"), c.erase("rope_theta");
  c["rope_parameters"] = {{"full_attention", proportional_rope(m.rope, full.d_head)},
                          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", m.local_rope_base}}}};
}

}  // namespace toy::hf

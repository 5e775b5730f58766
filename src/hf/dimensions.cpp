#include "hf/dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "hf/rope.h"
#include "models/families/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

const char* activation(const LayerSpec& l) {
  return l.ffn == FfnKind::swiglu || l.ffn == FfnKind::swiglu_oai ? "silu" : "gelu_pytorch_tanh";
}

std::vector<bool> windowed(const Config& c, size_t layers, int64_t every) {
  return listed_layers(c, layers, "sliding_attention", every);
}

}  // namespace

std::vector<bool> listed_layers(const Config& c, size_t layers, std::string_view kind, int64_t every) {
  std::vector<bool> list;
  for (size_t i = 0; i < layers; ++i) list.push_back(every == 0 || (int64_t(i) + 1) % every != 0);
  const json* types = c.find("layer_types");
  if (!types) return list;
  check(types->is_array() && types->size() == layers, "{}: 'layer_types' is not a list of {} names", c.path(), layers);
  for (size_t i = 0; i < layers; ++i) {
    const json& type = (*types)[i];
    check(type == "full_attention" || type == kind, "{}: 'layer_types' has {}; supported: full_attention, {}", c.path(),
          json_text(type), kind);
    list[i] = type == kind;
  }
  return list;
}

double shortest(float v) { return std::stod(fmt::format("{}", v)); }

std::vector<MixerKind> listed_mixers(const Config& c, std::string_view key, size_t layers,
                                     std::span<const MixerName> names) {
  const json* list = c.find(key);
  check(list && list->is_array() && list->size() == layers, "{}: '{}' is not a list of {} names", c.path(), key,
        layers);
  std::vector<MixerKind> mixers;
  for (const json& name : *list) {
    const auto it = std::find_if(names.begin(), names.end(), [&](const MixerName& n) { return name == n.name; });
    if (it == names.end()) {
      std::string known;
      for (const MixerName& n : names) known.append(known.empty() ? "" : ", ").append(n.name);
      fail("{}: '{}' has {}; supported: {}", c.path(), key, json_text(name), known);
    }
    mixers.push_back(it->mixer);
  }
  return mixers;
}

void require_same_mixers(const Config& c, const std::vector<MixerKind>& a, std::string_view key_a,
                         const std::vector<MixerKind>& b, std::string_view key_b) {
  const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  check(a == b, "{}: '{}' and '{}' contradict each other from layer {} on", c.path(), key_a, key_b,
        differs - a.begin());
}

std::vector<std::string> mixer_names(const ModelSpec& m, std::span<const MixerName> names) {
  std::vector<std::string> list;
  for (const LayerSpec& l : m.layers) {
    const auto it = std::find_if(names.begin(), names.end(), [&](const MixerName& n) { return n.mixer == l.mixer; });
    list.emplace_back(it == names.end() ? name_of(l.mixer) : it->name);
  }
  return list;
}

void read_sizes(const Config& c, ModelSpec& m, int64_t layers, std::string_view eps) {
  m.d_model = c.integer("hidden_size"), m.vocab = c.integer("vocab_size");
  m.norm_eps = c.number(eps);
  m.tied = c.flag("tie_word_embeddings", m.tied);
  check(layers >= 1 && layers <= kMaxLayers, "{}: 'num_hidden_layers' is {}, expected 1 to {}", c.path(), layers,
        kMaxLayers);
  m.layers = repeated(m.layers, size_t(layers));
}

void read_widths(const Config& c, ModelSpec& m, std::string_view d_ff, std::string_view eps) {
  read_sizes(c, m, c.integer("num_hidden_layers"), eps);
  m.context = c.integer("max_position_embeddings");
  const int64_t heads = c.integer("num_attention_heads");
  check(heads >= 1, "{}: 'num_attention_heads' is {}", c.path(), heads);
  for (LayerSpec& l : m.layers) {
    l.heads = heads, l.kv_heads = c.integer("num_key_value_heads", heads);
    l.d_head = c.integer("head_dim", m.d_model / heads), l.d_ff = c.integer(d_ff);
  }
  // Gemma's first files say "gelu", but it was trained with the other one.
  const json* act = c.find(c.has("hidden_activation") ? "hidden_activation" : "hidden_act");
  const char* only = activation(m.layers.front());
  check(!act || *act == only || (*act == "gelu" && m.architecture == "gemma"),
        "{}: the activation is {}; only {} is supported here", c.path(), act ? json_text(*act) : "", only);
}

void read_windows(const Config& c, ModelSpec& m, int64_t every) {
  const int64_t window = c.integer("sliding_window", 0);
  const std::vector<bool> has_one = windowed(c, m.layers.size(), every);
  check(window > 0 || !c.has("layer_types") || std::find(has_one.begin(), has_one.end(), true) == has_one.end(),
        "{}: 'layer_types' has sliding_attention, but 'sliding_window' is {}", c.path(), window);
  for (size_t i = 0; i < m.layers.size(); ++i) m.layers[i].window = has_one[i] ? window : 0;
}

void read_unused_window(const Config& c, ModelSpec& m) {
  if (!c.flag("use_sliding_window", false)) return;
  const int64_t first = c.integer("max_window_layers", int64_t(m.layers.size()));
  std::vector<bool> has_one = windowed(c, m.layers.size(), 0);
  for (size_t i = 0; i < m.layers.size(); ++i)
    if (has_one[i] && (c.has("layer_types") || int64_t(i) >= first)) m.layers[i].window = c.integer("sliding_window");
}

void read_model_rope(const Config& c, ModelSpec& m) {
  read_rope(rope_parameters(c, "full_attention"), m.context, m.layers.front().d_head, m.rope);
  const int64_t turned = std::exchange(m.rope.dims, 0);
  for (LayerSpec& l : m.layers) l.rope_dims = turned;
}

void read_biases(const Config& c, ModelSpec& m) {
  const bool attention = c.flag("attention_bias", false), mlp = c.flag("mlp_bias", false);
  for (LayerSpec& l : m.layers) {
    if (attention) l.bias.q = l.bias.k = l.bias.v = l.bias.out = true;
    if (mlp) l.bias.gate = l.bias.up = l.bias.down = true;
  }
}

void read_experts(const Config& c, ModelSpec& m, std::string_view count) {
  for (LayerSpec& l : m.layers) {
    l.experts.count = c.integer(c.has(count) ? count : "num_local_experts");
    l.experts.used = c.integer("num_experts_per_tok");
    l.experts.renormalized = c.flag("norm_topk_prob", true);
  }
}

void read_llama(const Config& c, Reading& r) {
  read_widths(c, r.spec);
  read_model_rope(c, r.spec);
  read_biases(c, r.spec);
}

void write_llama(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["intermediate_size"] = l.d_ff;
  c["num_hidden_layers"] = m.layers.size();
  c["num_attention_heads"] = l.heads, c["num_key_value_heads"] = l.kv_heads, c["head_dim"] = l.d_head;
  c["max_position_embeddings"] = m.context;
  c["rms_norm_eps"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied;
  c["hidden_act"] = activation(l);
  c["attention_bias"] = l.bias.out, c["mlp_bias"] = l.bias.down;
  RopeSpec rope = m.rope;
  rope.dims = l.rope_dims;
  write_rope(c, rope, m.context, l.d_head);
}

void read_multipliers(const Config& c, ModelSpec& m) {
  m.embedding_scale = c.number("embedding_multiplier"), m.residual_scale = c.number("residual_multiplier");
  m.logit_divisor = c.number("logits_scaling");
  for (LayerSpec& l : m.layers) l.attention_scale = c.number("attention_multiplier");
}

void write_multipliers(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["embedding_multiplier"] = shortest(m.embedding_scale), c["residual_multiplier"] = shortest(m.residual_scale);
  c["logits_scaling"] = shortest(m.logit_divisor);
  c["attention_multiplier"] = l.attention_scale > 0 ? shortest(l.attention_scale) : 1 / std::sqrt(double(l.d_head));
}

void write_experts(ordered_json& c, const ModelSpec& m, const char* count) {
  c[count] = m.layers.front().experts.count;
  c["num_experts_per_tok"] = m.layers.front().experts.used;
  c["norm_topk_prob"] = m.layers.front().experts.renormalized;
}

void write_windows(ordered_json& c, const ModelSpec& m) {
  c["sliding_window"] = nullptr;
  std::vector<std::string> types;
  for (const LayerSpec& l : m.layers) {
    if (l.window > 0) c["sliding_window"] = l.window;
    types.push_back(l.window > 0 ? "sliding_attention" : "full_attention");
  }
  c["layer_types"] = types;
}

}  // namespace toy::hf

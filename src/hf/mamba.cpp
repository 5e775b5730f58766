#include "hf/mamba.h"

#include <algorithm>

#include "hf/dimensions.h"
#include "hf/rope.h"
#include "models/families/families.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

// What classes call the sizes of Mamba layers.
struct MambaKeys {
  const char *heads, *width, *state, *groups, *conv;
};
constexpr MambaKeys kMamba2{"num_heads", "head_dim", "state_size", "n_groups", "conv_kernel"};
constexpr MambaKeys kGranite{"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv"};
constexpr MambaKeys kNemotronH{"mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel"};

// Configs before transformers 5 say the last two.
constexpr MixerName kGraniteLayers[] = {{"linear_attention", MixerKind::mamba2},
                                        {"full_attention", MixerKind::attention},
                                        {"mamba", MixerKind::mamba2},
                                        {"attention", MixerKind::attention}};
constexpr MixerName kNemotronHLayers[] = {{"linear_attention", MixerKind::mamba2},
                                          {"full_attention", MixerKind::attention},
                                          {"mlp", MixerKind::none},
                                          {"moe", MixerKind::none},
                                          {"mamba", MixerKind::mamba2},
                                          {"attention", MixerKind::attention}};

// A GGUF knows no limits of time steps.
void require_no_limit(const Config& c) {
  const json* limit = c.find("time_step_limit");
  if (!limit) return;
  const json none = {{"__float__", "Infinity"}};
  check(limit->is_array() && limit->size() == 2 && (*limit)[0].is_number() && (*limit)[0].get<double>() <= 0 &&
            (*limit)[1] == none,
        "{}: 'time_step_limit' is {}; only [0.0, Infinity] is supported here", c.path(), json_text(*limit));
}

void read_mamba(const Config& c, ModelSpec& m, const MambaKeys& keys) {
  MambaSizes s{.heads = c.integer(keys.heads),
               .state = c.integer(keys.state),
               .groups = c.integer(keys.groups),
               .conv = c.integer(keys.conv)};
  check(s.heads >= 1 && s.conv >= 1, "{}: '{}' is {} and '{}' {}, expected at least 1", c.path(), keys.heads, s.heads,
        keys.conv, s.conv);
  const json* width = c.find(keys.width);
  s.width = width && *width == "auto" ? 2 * m.d_model / s.heads : c.integer(keys.width);
  set_sizes(m, s);
  require_no_limit(c);
}

// `expand` says once more how wide all heads are.
void require_expanded(const Config& c, const ModelSpec& m, const char* key) {
  const auto s = sizes_of<MambaSizes>(m);
  const int64_t expand = c.integer(key, 2);
  check(double(expand) * double(m.d_model) == double(s.heads) * double(s.width),
        "{}: '{}' {} times 'hidden_size' {} is not {} heads of width {}", c.path(), key, expand, m.d_model, s.heads,
        s.width);
}

void write_mamba(ordered_json& c, const ModelSpec& m, const MambaKeys& keys) {
  const auto s = sizes_of<MambaSizes>(m);
  c[keys.heads] = s.heads, c[keys.width] = s.width, c[keys.state] = s.state;
  c[keys.groups] = s.groups, c[keys.conv] = s.conv;
}

int64_t expansion(const ModelSpec& m) {
  const auto s = sizes_of<MambaSizes>(m);
  return s.heads * s.width / m.d_model;
}

// GraniteMoeHybrid but for its Mamba layers.
void read_granite_layers(const Config& c, ModelSpec& m) {
  const bool dense = c.integer("num_local_experts") == 0;
  read_widths(c, m, dense ? "shared_intermediate_size" : "intermediate_size");
  read_model_rope(c, m);
  read_multipliers(c, m);
  c.require("attention_bias", false);
  const std::string positions = c.text("position_embedding_type", "nope");
  check(positions == "rope" || positions == "nope",
        "{}: 'position_embedding_type' is '{}'; supported: rope, nope, null", c.path(), positions);
  for (LayerSpec& l : m.layers) l.rope = positions == "rope" ? LayerRope::global : LayerRope::none;
  if (dense) return;
  read_experts(c, m, "num_local_experts");
  for (LayerSpec& l : m.layers) l.experts.shared_d_ff = c.integer("shared_intermediate_size");
}

void read_hybrid_layers(const Config& c, ModelSpec& m, const std::vector<MixerKind>& mixers) {
  for (size_t i = 0; i < m.layers.size(); ++i) m.layers[i].mixer = mixers[i];
  read_mamba(c, m, kGranite);
  require_expanded(c, m, "mamba_expand");
  c.require("mamba_conv_bias", true);
  c.require("mamba_proj_bias", false);
}

void write_hybrid_layers(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  write_mamba(c, m, kGranite);
  c["mamba_expand"] = expansion(m), c["mamba_conv_bias"] = true, c["mamba_proj_bias"] = false;
}

// Nemotron-H's layers by name, however the config states them.
std::vector<MixerKind> layers_of_nemotron_h(const Config& c, bool& has_mlp, bool& has_experts) {
  const json* list = c.find("layers_block_type");
  const std::string pattern = c.text("hybrid_override_pattern", "");
  check(list || !pattern.empty(), "{}: neither 'layers_block_type' nor 'hybrid_override_pattern' is there", c.path());
  std::vector<MixerKind> of_pattern, of_list;
  for (const char kind : pattern) {
    check(std::string_view("M*-E").find(kind) != std::string_view::npos,
          "{}: 'hybrid_override_pattern' is '{}'; supported letters: M, *, -, E", c.path(), pattern);
    of_pattern.push_back(kind == 'M' ? MixerKind::mamba2 : kind == '*' ? MixerKind::attention : MixerKind::none);
    has_mlp |= kind == '-', has_experts |= kind == 'E';
  }
  if (list) {
    of_list = listed_mixers(c, "layers_block_type", list->size(), kNemotronHLayers);
    for (const json& name : *list) has_mlp |= name == "mlp", has_experts |= name == "moe";
  }
  if (list && !pattern.empty())
    require_same_mixers(c, of_list, "layers_block_type", of_pattern, "hybrid_override_pattern");
  const std::vector<MixerKind>& layers = list ? of_list : of_pattern;
  const int64_t count = c.integer("num_hidden_layers", int64_t(layers.size()));
  check(count == int64_t(layers.size()), "{}: 'num_hidden_layers' is {}, but the list of layers names {}", c.path(),
        count, layers.size());
  return layers;
}

const LayerSpec& first_ffn(const ModelSpec& m) {
  const auto it = std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.d_ff > 0; });
  return it == m.layers.end() ? m.layers.front() : *it;
}

}  // namespace

bool turns_partly(const ModelSpec& m) { return m.layers.front().rope_dims > 0; }

void read_mamba2(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  read_sizes(c, m, c.integer("num_hidden_layers"), "layer_norm_epsilon");
  m.context = c.integer("max_position_embeddings");
  read_mamba(c, m, kMamba2);
  require_expanded(c, m, "expand");
  c.require("hidden_act", "silu");
  c.require("use_bias", false);
  c.require("use_conv_bias", true);
}
void write_mamba2(ordered_json& c, const ModelSpec& m) {
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["num_hidden_layers"] = m.layers.size();
  c["max_position_embeddings"] = m.context;
  c["layer_norm_epsilon"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied;
  write_mamba(c, m, kMamba2);
  c["expand"] = expansion(m);
  c["hidden_act"] = "silu", c["use_bias"] = false, c["use_conv_bias"] = true;
}

void read_granitehybrid(const Config& c, Reading& r) {
  read_granite_layers(c, r.spec);
  read_hybrid_layers(c, r.spec, listed_mixers(c, "layer_types", r.spec.layers.size(), kGraniteLayers));
}
void write_granitehybrid(ordered_json& c, const ModelSpec& m) {
  write_hybrid_layers(c, m);
  c.erase("mlp_bias");
  const LayerSpec& l = m.layers.front();
  c["layer_types"] = mixer_names(m, kGraniteLayers);
  c["position_embedding_type"] = nullptr;
  if (l.rope == LayerRope::global) c["position_embedding_type"] = "rope";
  write_multipliers(c, m);
  c["num_local_experts"] = l.experts.count, c["num_experts_per_tok"] = l.experts.used;
  c["shared_intermediate_size"] = l.experts.count > 0 ? l.experts.shared_d_ff : l.d_ff;
}

void read_granite_of_hybrid(const Config& c, Reading& r) { read_granite_layers(c, r.spec); }

bool is_plain_granite(const Config& c) {
  const json* types = c.find("layer_types");
  if (!types || !types->is_array() || c.integer("num_local_experts", 8) > 0) return false;
  return std::all_of(types->begin(), types->end(),
                     [](const json& type) { return type == "full_attention" || type == "attention"; });
}

void read_bamba(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  read_widths(c, m);
  read_model_rope(c, m);
  const Config rope = rope_parameters(c, "full_attention");
  rope.require("partial_rotary_factor", 0.5);  // the class knows no other
  c.require("attention_bias", false);
  c.require("mlp_bias", false);
  std::vector<MixerKind> mixers(m.layers.size(), MixerKind::mamba2);
  for (const int64_t layer : c.integers("attn_layer_indices")) {
    check(layer < int64_t(mixers.size()), "{}: 'attn_layer_indices' has {}, but there are {} layers", c.path(), layer,
          mixers.size());
    mixers[size_t(layer)] = MixerKind::attention;
  }
  for (LayerSpec& l : m.layers) l.rope = LayerRope::global;
  read_hybrid_layers(c, m, mixers);
}
void write_bamba(ordered_json& c, const ModelSpec& m) {
  write_hybrid_layers(c, m);
  for (size_t i = 0; i < m.layers.size(); ++i)
    if (m.layers[i].mixer == MixerKind::attention) c["attn_layer_indices"].push_back(i);
}

bool is_dense_nemotron_h(const Config& c) {
  bool has_mlp = false, has_experts = false;
  layers_of_nemotron_h(c, has_mlp, has_experts);
  return !has_experts;
}

void read_nemotron_h(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  bool has_mlp = false, has_experts = false;
  const std::vector<MixerKind> mixers = layers_of_nemotron_h(c, has_mlp, has_experts);
  check(!has_mlp || !has_experts, "{}: some layers have an ffn and some experts; a GGUF has either", c.path());
  read_sizes(c, m, int64_t(mixers.size()), "layer_norm_epsilon");
  m.context = c.integer("max_position_embeddings");
  const int64_t heads = c.integer("num_attention_heads"), kv_heads = c.integer("num_key_value_heads"),
                width = c.integer("head_dim", c.integer("attention_head_dim", 128));
  const bool bias = c.flag("mlp_bias", false);
  Experts experts = m.layers.front().experts;
  if (has_experts) {
    c.require("n_shared_experts", 1);
    c.require("n_group", 1);
    c.require("topk_group", 1);
    c.require("mlp_bias", false);
    experts.count = c.integer("n_routed_experts"), experts.used = c.integer("num_experts_per_tok");
    experts.renormalized = c.flag("norm_topk_prob", true), experts.scale = c.number("routed_scaling_factor");
    experts.shared_d_ff = c.integer("moe_shared_expert_intermediate_size");
    experts.latent = c.integer("moe_latent_size", 0);
  }
  for (size_t i = 0; i < mixers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    l.mixer = mixers[i], l.heads = heads, l.kv_heads = kv_heads, l.d_head = width, l.experts = experts, l.d_ff = 0;
    if (l.mixer == MixerKind::none) {
      l.d_ff = c.integer(has_experts ? "moe_intermediate_size" : "intermediate_size");
      l.bias.up = l.bias.down = bias;
    } else {
      l.experts.count = l.experts.used = l.experts.shared_d_ff = 0;
    }
  }
  read_mamba(c, m, kNemotronH);
  c.require("mlp_hidden_act", "relu2");
  c.require("mamba_hidden_act", "silu");
  for (const char* key : {"use_bias", "mamba_proj_bias", "attention_bias"}) c.require(key, false);
  c.require("use_conv_bias", true);
  c.require("sliding_window", nullptr);
  if (const float least = c.number("time_step_min", 0.001f); least > 1e-6f)
    r.warnings.push_back(fmt::format(
        "transformers raises time steps of prompts to 'time_step_min', {:g}; a GGUF has no such limit", least));
}
void write_nemotron_h(ordered_json& c, const ModelSpec& m) {
  const LayerSpec &l = m.layers.front(), &ffn = first_ffn(m);
  std::vector<std::string> names = mixer_names(m, kNemotronHLayers);
  std::string pattern;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool experts = m.layers[i].experts.count > 0;
    if (experts) names[i] = "moe";
    switch (m.layers[i].mixer) {
      case MixerKind::mamba2:
        pattern += 'M';
        break;
      case MixerKind::attention:
        pattern += '*';
        break;
      default:
        pattern += experts ? 'E' : '-';
    }
  }
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["intermediate_size"] = ffn.d_ff;
  c["num_hidden_layers"] = m.layers.size(), c["layers_block_type"] = names, c["hybrid_override_pattern"] = pattern;
  c["num_attention_heads"] = l.heads, c["num_key_value_heads"] = l.kv_heads, c["head_dim"] = l.d_head;
  c["max_position_embeddings"] = m.context;
  c["layer_norm_epsilon"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied;
  c["mlp_hidden_act"] = "relu2", c["mlp_bias"] = ffn.bias.up;
  write_mamba(c, m, kNemotronH);
  c["mamba_hidden_act"] = "silu";
  c["use_bias"] = false, c["mamba_proj_bias"] = false, c["attention_bias"] = false, c["use_conv_bias"] = true;
  c["time_step_min"] = 1e-9;  // no limit; the class takes its logarithm
  if (ffn.experts.count == 0) return;
  const Experts& e = ffn.experts;
  c["n_routed_experts"] = e.count, c["num_experts_per_tok"] = e.used, c["moe_intermediate_size"] = ffn.d_ff;
  c["n_shared_experts"] = 1, c["moe_shared_expert_intermediate_size"] = e.shared_d_ff;
  c["moe_latent_size"] = nullptr;
  if (e.latent > 0) c["moe_latent_size"] = e.latent;
  c["routed_scaling_factor"] = shortest(e.scale), c["norm_topk_prob"] = e.renormalized;
  c["n_group"] = 1, c["topk_group"] = 1;
}

}  // namespace toy::hf

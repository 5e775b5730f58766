#include "hf/kimi_linear.h"

#include <algorithm>

#include "hf/dimensions.h"
#include "models/families/llama_like.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

constexpr MixerName kKimiLayers[] = {{"linear_attention", MixerKind::kimi_delta},
                                     {"full_attention", MixerKind::latent}};

// Published configs have the first key, transformers' class takes the second as well.
std::string_view one_of(const Config& c, std::string_view key, std::string_view other) {
  if (c.has(key) && c.has(other))
    check(*c.find(key) == *c.find(other), "{}: '{}' is {} and '{}' {}; both mean the same", c.path(), key,
          json_text(*c.find(key)), other, json_text(*c.find(other)));
  return c.has(key) || !c.has(other) ? key : other;
}

// `linear_attn_config` counts layers from 1.
std::vector<MixerKind> mixers_of_kimi(const Config& c, const Config& linear, size_t layers) {
  std::vector<MixerKind> listed, numbered;
  if (c.has("layer_types")) listed = listed_mixers(c, "layer_types", layers, kKimiLayers);
  if (!linear.has("full_attn_layers") && !linear.has("kda_layers")) {
    check(!listed.empty(), "{}: neither 'layer_types' nor 'linear_attn_config' lists the layers", c.path());
    return listed;
  }
  numbered.assign(layers, MixerKind::none);
  const auto add = [&](const char* key, MixerKind mixer) {
    for (const int64_t layer : linear.integers(key)) {
      check(layer >= 1 && layer <= int64_t(layers) && numbered[size_t(layer - 1)] == MixerKind::none,
            "{}: '{}' has {}; expected every layer of 1 to {} in one of two lists", linear.path(), key, layer, layers);
      numbered[size_t(layer - 1)] = mixer;
    }
  };
  add("full_attn_layers", MixerKind::latent);
  add("kda_layers", MixerKind::kimi_delta);
  const auto none = std::find(numbered.begin(), numbered.end(), MixerKind::none);
  check(none == numbered.end(), "{}: layer {} is in neither 'full_attn_layers' nor 'kda_layers'", linear.path(),
        none - numbered.begin() + 1);
  if (!listed.empty()) require_same_mixers(c, listed, "layer_types", numbered, "linear_attn_config");
  return numbered;
}

// How many layers at the beginning have no experts.
size_t dense_of_kimi(const Config& c, size_t layers) {
  const json* types = c.find("mlp_layer_types");
  const int64_t stated = c.integer("first_k_dense_replace", 1);
  if (!types) return size_t(std::min(stated, int64_t(layers)));
  check(types->is_array() && types->size() == layers, "{}: 'mlp_layer_types' is not a list of {} names", c.path(),
        layers);
  const auto sparse = std::find(types->begin(), types->end(), "sparse");
  const auto dense = std::ptrdiff_t(sparse - types->begin());
  check(std::all_of(types->begin(), sparse, [](const json& t) { return t == "dense"; }) &&
            std::all_of(sparse, types->end(), [](const json& t) { return t == "sparse"; }),
        "{}: 'mlp_layer_types' is {}; expected dense layers, and then sparse ones", c.path(), json_text(*types));
  check(!c.has("first_k_dense_replace") || stated == dense,
        "{}: 'first_k_dense_replace' is {}, but 'mlp_layer_types' begins with {} dense layers", c.path(), stated,
        dense);
  return size_t(dense);
}

}  // namespace

void read_kimi_linear(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  read_sizes(c, m, c.integer("num_hidden_layers"), "rms_norm_eps");
  m.context = c.integer(one_of(c, "model_max_length", "max_position_embeddings"), int64_t(1) << 20);
  const Config linear = c.object("linear_attn_config");
  const auto of_linear = [&](const char* key, const char* outer, int64_t otherwise) {
    const int64_t value = c.integer(outer, linear.integer(key, otherwise));
    check(linear.integer(key, value) == value, "{}: '{}' is {}, but '{}' is {}", c.path(), outer, value, key,
          linear.integer(key, value));
    return value;
  };
  const int64_t heads = c.integer("num_attention_heads"), linear_heads = of_linear("num_heads", "linear_num_heads", 32);
  check(heads == linear_heads, "{}: 'num_attention_heads' is {}, but linear attention has {} heads; a GGUF has as many",
        c.path(), heads, linear_heads);
  const int64_t kv_heads = c.integer("num_key_value_heads", heads);
  check(kv_heads == heads, "{}: 'num_key_value_heads' is {}; only {}, 'num_attention_heads', is supported here",
        c.path(), kv_heads, heads);
  const KimiDelta delta{.heads = heads,
                        .width = of_linear("head_dim", "linear_head_dim", 128),
                        .conv = of_linear("short_conv_kernel_size", "linear_conv_kernel_dim", 4)};
  const LatentSizes latent{.width = c.integer("kv_lora_rank"),
                           .key = c.integer("qk_nope_head_dim"),
                           .shared_key = c.integer("qk_rope_head_dim"),
                           .value = c.integer("v_head_dim")};
  check(!c.has("q_lora_rank"), "{}: 'q_lora_rank' is not supported; only null is", c.path());
  Experts experts = m.layers.front().experts;
  const int64_t width = c.integer("moe_intermediate_size"),
                shared = c.integer(one_of(c, "num_shared_experts", "n_shared_experts"), 1);
  check(shared >= 1 && shared <= 4096, "{}: there are {} shared experts, expected 1 to 4096", c.path(), shared);
  experts.count = c.integer(one_of(c, "num_experts", "num_local_experts"), 256);
  experts.used = c.integer(one_of(c, "num_experts_per_token", "num_experts_per_tok"), 8);
  experts.shared_d_ff = shared * width, experts.scale = c.number("routed_scaling_factor");
  c.require(one_of(c, "moe_renormalize", "norm_topk_prob"), true);
  c.require(one_of(c, "num_expert_group", "n_group"), 1);
  c.require("topk_group", 1);
  c.require("moe_router_activation_func", "sigmoid");
  c.require("moe_layer_freq", 1);
  c.require("mla_use_nope", true);
  c.require("attention_bias", false);
  c.require("hidden_act", "silu");
  const size_t dense = dense_of_kimi(c, m.layers.size());
  const std::vector<MixerKind> mixers = mixers_of_kimi(c, linear, m.layers.size());
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    l.mixer = mixers[i] == MixerKind::latent ? MixerSpec(latent) : MixerSpec(delta);
    l.heads = l.kv_heads = heads, l.d_head = delta.width;
    l.experts = experts, l.d_ff = width;
    if (i >= dense) continue;
    l.d_ff = c.integer("intermediate_size");
    l.experts.count = l.experts.used = l.experts.shared_d_ff = 0;
  }
}

void write_kimi_linear(ordered_json& c, const ModelSpec& m) {
  const LayerSpec &first = m.layers.front(), &last = m.layers.back();
  const auto s = sizes_of<LatentSizes>(m);
  const auto delta = sizes_of<KimiDelta>(m);
  const size_t dense = dense_layers(m);
  c["vocab_size"] = m.vocab, c["hidden_size"] = m.d_model, c["num_hidden_layers"] = m.layers.size();
  c["model_max_length"] = m.context;
  c["rms_norm_eps"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied, c["hidden_act"] = "silu";
  c["num_attention_heads"] = first.heads, c["num_key_value_heads"] = first.heads;
  c["kv_lora_rank"] = s.width, c["q_lora_rank"] = nullptr, c["qk_nope_head_dim"] = s.key;
  c["qk_rope_head_dim"] = s.shared_key, c["v_head_dim"] = s.value, c["mla_use_nope"] = true;
  c["intermediate_size"] = first.d_ff, c["moe_intermediate_size"] = last.d_ff;
  c["num_experts"] = last.experts.count, c["num_experts_per_token"] = last.experts.used;
  c["num_shared_experts"] = last.experts.shared_d_ff / last.d_ff;
  c["routed_scaling_factor"] = shortest(last.experts.scale), c["moe_renormalize"] = true;
  c["num_expert_group"] = 1, c["topk_group"] = 1, c["moe_router_activation_func"] = "sigmoid";
  c["first_k_dense_replace"] = dense, c["moe_layer_freq"] = 1;
  // The class's own code takes the object, transformers' the lists.
  ordered_json linear = {{"head_dim", delta.width},
                         {"num_heads", delta.heads},
                         {"short_conv_kernel_size", delta.conv},
                         {"full_attn_layers", json::array()},
                         {"kda_layers", json::array()}};
  for (size_t i = 0; i < m.layers.size(); ++i) {
    linear[m.layers[i].mixer == MixerKind::latent ? "full_attn_layers" : "kda_layers"].push_back(i + 1);
    c["mlp_layer_types"].push_back(i < dense ? "dense" : "sparse");
  }
  c["linear_attn_config"] = linear;
  c["layer_types"] = mixer_names(m, kKimiLayers);
  c["linear_head_dim"] = delta.width, c["linear_num_heads"] = delta.heads;
  c["linear_conv_kernel_dim"] = delta.conv;
}

}  // namespace toy::hf

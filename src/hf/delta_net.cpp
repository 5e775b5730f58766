#include "hf/delta_net.h"

#include <set>
#include <string>

#include "hf/dimensions.h"
#include "hf/rope.h"
#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy::hf {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

using Numbers = std::vector<int64_t>;

void add(Numbers& list, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) list.push_back(first + i);
}

// Those of the value heads in the order of the GGUF. In the folder there are `group` rows for each key head, of whose
// value heads the first begins at `first`.
void add_heads(Numbers& list, const DeltaNet& d, int64_t first, int64_t group, int64_t width) {
  const int64_t each = d.value_heads / d.key_heads;
  for (int64_t i = 0; i < d.value_heads; ++i) {
    const bool tiled = d.heads == HeadMap::tile;
    const int64_t key = tiled ? i % d.key_heads : i / each, in_group = tiled ? i / d.key_heads : i % each;
    add(list, first + key * group + in_group * width, width);
  }
}

void read_layers(const Config& c, ModelSpec& m, std::string_view d_ff) {
  read_widths(c, m, d_ff);
  read_model_rope(c, m);
  const std::vector<bool> linear =
      listed_layers(c, m.layers.size(), "linear_attention", c.integer("full_attention_interval", 4));
  const int64_t width = c.integer("linear_key_head_dim"), of_values = c.integer("linear_value_head_dim");
  check(width == of_values,
        "{}: 'linear_key_head_dim' is {} and 'linear_value_head_dim' {}; only equal ones are supported", c.path(),
        width, of_values);
  DeltaNet sizes = sizes_of<DeltaNet>(m);
  sizes.key_heads = c.integer("linear_num_key_heads"), sizes.value_heads = c.integer("linear_num_value_heads");
  sizes.width = width, sizes.conv = c.integer("linear_conv_kernel_dim");
  for (size_t i = 0; i < m.layers.size(); ++i) m.layers[i].mixer = linear[i] ? MixerSpec(sizes) : MixerSpec();
  c.require("attention_bias", false);
  c.require("attn_output_gate", true);
}

void read_shared_experts(const Config& c, ModelSpec& m) {
  c.require("norm_topk_prob", true);  // a GGUF cannot say anything else
  c.require("decoder_sparse_step", 1);
  c.require("mlp_only_layers", json::array());
  read_experts(c, m, "num_experts");
  for (LayerSpec& l : m.layers) l.experts.shared_d_ff = c.integer("shared_expert_intermediate_size");
}

void write_layers(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  c.erase("mlp_bias");
  std::vector<std::string> types;
  for (const LayerSpec& l : m.layers)
    types.push_back(l.mixer == MixerKind::gated_delta ? "linear_attention" : "full_attention");
  c["layer_types"] = types;
  const auto d = sizes_of<DeltaNet>(m);
  c["linear_num_key_heads"] = d.key_heads, c["linear_num_value_heads"] = d.value_heads;
  c["linear_key_head_dim"] = d.width, c["linear_value_head_dim"] = d.width;
  c["linear_conv_kernel_dim"] = d.conv;
}

void write_shared_experts(ordered_json& c, const ModelSpec& m) {
  write_experts(c, m, "num_experts");
  c["moe_intermediate_size"] = m.layers.front().d_ff;
  c["shared_expert_intermediate_size"] = m.layers.front().experts.shared_d_ff;
}

}  // namespace

void read_qwen35(const Config& c, Reading& r) { read_layers(c, r.spec, "intermediate_size"); }

void read_qwen35moe(const Config& c, Reading& r) {
  read_layers(c, r.spec, "moe_intermediate_size");
  read_shared_experts(c, r.spec);
}

void write_qwen35(ordered_json& c, const ModelSpec& m) {
  write_layers(c, m);
  // The class knows no other place for what rope of pictures needs.
  ordered_json rope = c.at("rope_scaling").is_null() ? ordered_json{{"rope_type", "default"}} : c.at("rope_scaling");
  const LayerSpec& l = m.layers.front();
  const int64_t pairs = (l.rope_dims > 0 ? l.rope_dims : l.d_head) / 2;
  rope["rope_theta"] = m.rope.base;
  rope["partial_rotary_factor"] = c.value("partial_rotary_factor", 1.0);
  rope["mrope_interleaved"] = true;
  rope["mrope_section"] = {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3};
  for (const char* key : {"rope_scaling", "rope_theta", "partial_rotary_factor"}) c.erase(key);
  c["rope_parameters"] = rope;
}

void write_qwen35moe(ordered_json& c, const ModelSpec& m) {
  write_qwen35(c, m);
  c.erase("intermediate_size");
  write_shared_experts(c, m);
}

void write_qwen3next(ordered_json& c, const ModelSpec& m) {
  write_layers(c, m);
  write_shared_experts(c, m);
  c["partial_rotary_factor"] = c.value("partial_rotary_factor", 1.0);  // else it is 0.25
  c["decoder_sparse_step"] = 1, c["mlp_only_layers"] = json::array();
}

bool is_dense_qwen3next(const Config& c) {
  if (c.has("num_experts") && c.integer("num_experts") == 0) return true;
  const std::vector<int64_t> list = c.integers("mlp_only_layers");
  const std::set<int64_t> dense(list.begin(), list.end());
  int64_t layers = 0;
  while (dense.contains(layers)) ++layers;
  return layers >= c.integer("num_hidden_layers");
}

std::optional<Numbers> rows_of_delta_net(const DeltaNet& d, std::string_view stem, bool packed) {
  const int64_t each = d.value_heads / d.key_heads, keys = d.key_heads * d.width, values = each * d.width;
  const int64_t group = packed ? 2 * d.width + 2 * values : values;  // of a key head's rows
  Numbers rows;
  if (stem == "attn_qkv" && packed) {
    for (const int64_t first : {int64_t(0), d.width})
      for (int64_t i = 0; i < d.key_heads; ++i) add(rows, first + i * group, d.width);
    add_heads(rows, d, 2 * d.width, group, d.width);
  } else if (stem == "attn_qkv" || stem == "ssm_conv1d") {
    add(rows, 0, 2 * keys);
    add_heads(rows, d, 2 * keys, values, d.width);
  } else if (stem == "attn_gate") {
    add_heads(rows, d, packed ? 2 * d.width + values : 0, group, d.width);
  } else if (stem == "ssm_beta" || stem == "ssm_alpha") {
    add_heads(rows, d, packed && stem == "ssm_alpha" ? each : 0, packed ? 2 * each : each, 1);
  } else if (stem == "ssm_a_log" || stem == "ssm_dt") {
    add_heads(rows, d, 0, each, 1);
  } else {
    return std::nullopt;
  }
  return rows;
}

Numbers columns_of_delta_net(const DeltaNet& d) {
  Numbers columns;
  add_heads(columns, d, 0, d.value_heads / d.key_heads * d.width, d.width);
  return columns;
}

}  // namespace toy::hf

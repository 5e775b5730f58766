#include "hf/models.h"

#include <algorithm>
#include <cmath>

#include "hf/delta_net.h"
#include "hf/dimensions.h"
#include "hf/gemmas.h"
#include "hf/names.h"
#include "hf/rope.h"
#include "models/families.h"
#include "models/fields.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void read_mistral(const Config& c, Reading& r) {
  read_llama(c, r);
  read_windows(c, r.spec, 0);
}
void write_mistral(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  c["sliding_window"] = m.layers.front().window;
}

void read_mixtral(const Config& c, Reading& r) {
  read_mistral(c, r);
  read_experts(c, r.spec, "num_local_experts");
}
void write_mixtral(ordered_json& c, const ModelSpec& m) {
  write_mistral(c, m);
  if (m.layers.front().window == 0) c["sliding_window"] = nullptr;
  write_experts(c, m, "num_local_experts");
}

void read_qwen2(const Config& c, Reading& r) {
  read_llama(c, r);
  read_unused_window(c, r.spec);
}
void write_qwen2(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  c["use_sliding_window"] = false;
}

void read_qwen3moe(const Config& c, Reading& r) {
  read_widths(c, r.spec, "moe_intermediate_size");
  read_model_rope(c, r.spec);
  read_biases(c, r.spec);
  read_unused_window(c, r.spec);
  read_experts(c, r.spec, "num_experts");
  c.require("decoder_sparse_step", 1);
  c.require("mlp_only_layers", json::array());
}
void write_qwen3moe(ordered_json& c, const ModelSpec& m) {
  write_qwen2(c, m);
  c["moe_intermediate_size"] = m.layers.front().d_ff;
  c["decoder_sparse_step"] = 1, c["mlp_only_layers"] = json::array();
  write_experts(c, m, "num_experts");
}

void read_olmoe(const Config& c, Reading& r) {
  read_llama(c, r);
  read_experts(c, r.spec, "num_experts");
  check(!c.has("clip_qkv"), "{}: 'clip_qkv' is not supported", c.path());
}
void write_olmoe(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  write_experts(c, m, "num_experts");
}

void read_olmo3(const Config& c, Reading& r) {
  read_llama(c, r);
  ModelSpec& m = r.spec;
  read_windows(c, m, 4);
  const bool stretched = m.rope.scaling != RopeSpec::Scaling::none || m.rope.attn_factor != 1;
  m.local_rope_base = m.rope.base;
  const float local = rope_parameters(c, "sliding_attention").number("rope_theta", m.rope.base);
  check(local == m.rope.base, "{}: layers with a window have 'rope_theta' {:g}, others {:g}; a GGUF has one", c.path(),
        local, m.rope.base);
  for (LayerSpec& l : m.layers)
    if (l.window > 0 && stretched) l.rope = LayerRope::local;
  if (!stretched) m.local_rope_base = ModelSpec().local_rope_base;
}
void write_olmo3(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  write_windows(c, m);
  // transformers 5 would scale `rope_scaling` in all layers.
  ordered_json full = c.at("rope_scaling").is_null() ? ordered_json{{"rope_type", "default"}} : c.at("rope_scaling");
  full["rope_theta"] = m.rope.base;
  c.erase("rope_scaling");
  c["rope_parameters"] = {{"full_attention", full},
                          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", m.rope.base}}}};
}

void read_smollm3(const Config& c, Reading& r) {
  read_qwen2(c, r);
  const std::vector<int64_t> turns = c.integers("no_rope_layers");
  check(turns.empty() || turns.size() == r.spec.layers.size(), "{}: 'no_rope_layers' is not a list of {} numbers",
        c.path(), r.spec.layers.size());
  for (size_t i = 0; i < turns.size(); ++i) r.spec.layers[i].rope = turns[i] ? LayerRope::global : LayerRope::none;
}
void write_smollm3(ordered_json& c, const ModelSpec& m) {
  write_qwen2(c, m);
  c["no_rope_layer_interval"] = 4;
  for (const LayerSpec& l : m.layers) c["no_rope_layers"].push_back(l.rope == LayerRope::none ? 0 : 1);
}

void read_phi3(const Config& c, Reading& r) {
  read_llama(c, r);
  read_windows(c, r.spec, 0);
}
void write_phi3(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  c["sliding_window"] = nullptr;
  if (m.layers.front().window > 0) c["sliding_window"] = m.layers.front().window;
}

void read_granite(const Config& c, Reading& r) {
  read_llama(c, r);
  ModelSpec& m = r.spec;
  m.embedding_scale = c.number("embedding_multiplier"), m.residual_scale = c.number("residual_multiplier");
  m.logit_divisor = c.number("logits_scaling");
  for (LayerSpec& l : m.layers) l.attention_scale = c.number("attention_multiplier");
}
void write_granite(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  const LayerSpec& l = m.layers.front();
  c["embedding_multiplier"] = shortest(m.embedding_scale), c["residual_multiplier"] = shortest(m.residual_scale);
  c["logits_scaling"] = shortest(m.logit_divisor);
  c["attention_multiplier"] = l.attention_scale > 0 ? shortest(l.attention_scale) : 1 / std::sqrt(double(l.d_head));
}

void read_granitemoe(const Config& c, Reading& r) {
  read_granite(c, r);
  read_experts(c, r.spec, "num_local_experts");
  for (LayerSpec& l : r.spec.layers) l.experts.shared_d_ff = c.integer("shared_intermediate_size", 0);
}
void write_granitemoe(ordered_json& c, const ModelSpec& m) {
  write_granite(c, m);
  write_experts(c, m, "num_local_experts");
  if (const int64_t shared = m.layers.front().experts.shared_d_ff; shared > 0) c["shared_intermediate_size"] = shared;
}

void read_gpt_oss(const Config& c, Reading& r) {
  read_widths(c, r.spec);
  read_model_rope(c, r.spec);
  read_windows(c, r.spec, 2);
  read_experts(c, r.spec, "num_local_experts");
  c.require("attention_bias", true);
  c.require("swiglu_alpha", 1.702);
  c.require("swiglu_limit", 7.0);
}
void write_gpt_oss(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  write_windows(c, m);
  write_experts(c, m, "num_local_experts");
  c["swiglu_limit"] = 7.0;
  if (!c.at("rope_scaling").is_null()) return;
  c.erase("rope_scaling");  // the class would take its own
  c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", m.rope.base}};
}

void read_gpt2(const Config& c, Reading& r) {
  ModelSpec& m = r.spec;
  m.d_model = c.integer("n_embd"), m.vocab = c.integer("vocab_size");
  m.context = c.integer(c.has("n_positions") ? "n_positions" : "n_ctx");
  m.norm_eps = c.number("layer_norm_epsilon");
  m.tied = c.flag("tie_word_embeddings", true);
  const int64_t layers = c.integer("n_layer"), heads = c.integer("n_head");
  check(layers >= 1 && layers <= 4096, "{}: 'n_layer' is {}, expected 1 to 4096", c.path(), layers);
  check(heads >= 1, "{}: 'n_head' is {}", c.path(), heads);
  m.layers = repeated(m.layers, size_t(layers));
  for (LayerSpec& l : m.layers) {
    l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads;
    l.d_ff = c.integer("n_inner", 4 * m.d_model);
  }
  const json* act = c.find("activation_function");
  check(!act || *act == "gelu_new" || *act == "gelu_pytorch_tanh",
        "{}: 'activation_function' is {}; supported: gelu_new", c.path(), act ? json_text(*act) : "");
  c.require("scale_attn_weights", true);
  c.require("scale_attn_by_inverse_layer_idx", false);
  c.require("add_cross_attention", false);
}
void write_gpt2(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["vocab_size"] = m.vocab, c["n_embd"] = m.d_model, c["n_inner"] = l.d_ff, c["n_layer"] = m.layers.size();
  c["n_head"] = l.heads, c["n_positions"] = m.context, c["n_ctx"] = m.context;
  c["layer_norm_epsilon"] = shortest(m.norm_eps), c["tie_word_embeddings"] = m.tied;
  c["activation_function"] = "gelu_new";
}

bool is_any(const ModelSpec&) { return true; }
bool has_experts(const ModelSpec& m) { return m.layers.front().experts.count > 0; }
bool has_windows(const ModelSpec& m) {
  return std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.window > 0; });
}

// What Qwen3-Next and Qwen3.5 have in common.
constexpr const char* kDeltaNetDefaults =
    R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 256, "partial_rotary_factor": 0.25,)"
    R"("tie_word_embeddings": false, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,)"
    R"("linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,)"
    R"("moe_intermediate_size": 512, "shared_expert_intermediate_size": 512})";

constexpr HfModel kModels[] = {
    {"llama", "LlamaForCausalLM", "llama", R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048})", read_llama,
     write_llama, [](const ModelSpec& m) { return !has_experts(m) && !has_windows(m); }},
    {"mistral", "MistralForCausalLM", "llama",
     R"({"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072})",
     read_mistral, write_mistral, [](const ModelSpec& m) { return !has_experts(m); }},
    {"mixtral", "MixtralForCausalLM", "llama",
     R"({"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "rope_theta": 1e6, "num_experts_per_tok": 2, )"
     R"("num_local_experts": 8, "max_position_embeddings": 131072})",
     read_mixtral, write_mixtral, has_experts, kMixtralNames},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768})", read_qwen2,
     write_qwen2},
    {"qwen3", "Qwen3ForCausalLM", "qwen3",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 128})", read_qwen2, write_qwen2},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 4, "norm_topk_prob": false})",
     read_qwen3moe, write_qwen3moe},
    {"gemma",
     "GemmaForCausalLM",
     "gemma",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256, "num_key_value_heads": 16})",
     read_llama,
     write_gemma,
     is_any,
     {},
     "model.layers.",
     true},
    {"gemma2", "Gemma2ForCausalLM", "gemma2",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "head_dim": 256, "num_key_value_heads": 4,)"
     R"("query_pre_attn_scalar": 256, "sliding_window": 4096})",
     read_gemma2, write_gemma2, is_any, kNormsAroundNames, "model.layers.", true},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3",
     R"({"rms_norm_eps": 1e-6, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4,)"
     R"("vocab_size": 262208, "query_pre_attn_scalar": 256, "sliding_window": 4096, "_sliding_window_pattern": 6,)"
     R"("rope_theta": 1e6, "rope_local_base_freq": 10000, "max_position_embeddings": 131072})",
     read_gemma3, write_gemma3, is_any, kNormsAroundNames, "model.layers.", true},
    {"gemma4_text", "Gemma4ForCausalLM", "gemma4",
     R"({"rms_norm_eps": 1e-6, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4,)"
     R"("vocab_size": 262144, "sliding_window": 512, "max_position_embeddings": 131072, "tie_word_embeddings": true,)"
     R"("rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000},)"
     R"("full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})",
     read_gemma4, write_gemma4, is_any, kGemma4Names},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048})", read_llama,
     write_llama, [](const ModelSpec& m) { return !has_windows(m); }, kNormsAroundNames},
    {"olmo3", "Olmo3ForCausalLM", "olmo2",
     R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 2048, "sliding_window": 4096})", read_olmo3, write_olmo3,
     has_windows, kNormsAroundNames},
    {"olmoe", "OlmoeForCausalLM", "olmoe",
     R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "norm_topk_prob": false, "num_experts_per_tok": 8,)"
     R"("num_experts": 64})",
     read_olmoe, write_olmoe},
    {"phi3", "Phi3ForCausalLM", "phi3", R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096})", read_phi3,
     write_phi3, is_any, kPhi3Names},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "num_key_value_heads": 4, "rope_theta": 2e6,)"
     R"("tie_word_embeddings": true})",
     read_smollm3, write_smollm3},
    {"granite", "GraniteForCausalLM", "granite",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "embedding_multiplier": 1, "logits_scaling": 1,)"
     R"("residual_multiplier": 1, "attention_multiplier": 1})",
     read_granite, write_granite},
    {"granitemoe", "GraniteMoeForCausalLM", "granitemoe",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "embedding_multiplier": 1, "logits_scaling": 1,)"
     R"("residual_multiplier": 1, "attention_multiplier": 1, "num_local_experts": 8, "num_experts_per_tok": 2})",
     read_granitemoe, write_granitemoe, [](const ModelSpec& m) { return m.layers.front().experts.shared_d_ff == 0; },
     kGraniteMoeNames},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", "granitemoe",
     R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "embedding_multiplier": 1, "logits_scaling": 1,)"
     R"("residual_multiplier": 1, "attention_multiplier": 1, "num_local_experts": 8, "num_experts_per_tok": 2})",
     read_granitemoe, write_granitemoe, is_any, kGraniteMoeNames},
    {"gpt_oss", "GptOssForCausalLM", "gpt-oss",
     R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "head_dim": 64, "num_key_value_heads": 8,)"
     R"("sliding_window": 128, "num_local_experts": 128, "num_experts_per_tok": 4, "rope_theta": 150000,)"
     R"("rope_scaling": {"rope_type": "yarn", "factor": 32, "truncate": false,)"
     R"("original_max_position_embeddings": 4096}})",
     read_gpt_oss, write_gpt_oss, is_any, kGptOssNames, "model.layers.", false, false, true},
    {.type = "qwen3_5_text",
     .class_name = "Qwen3_5ForCausalLM",
     .architecture = "qwen35",
     .defaults = kDeltaNetDefaults,
     .read = read_qwen35,
     .write = write_qwen35,
     .names = with_each_expert(kQwen35Names),
     .norm_plus_1 = true},
    {.type = "qwen3_5_moe_text",
     .class_name = "Qwen3_5MoeForCausalLM",
     .architecture = "qwen35moe",
     .defaults = kDeltaNetDefaults,
     .read = read_qwen35moe,
     .write = write_qwen35moe,
     .names = with_each_expert(kQwen35Names),
     .norm_plus_1 = true,
     .other_names = kQwen35Names},
    // A GGUF of Qwen3-Next has experts in every layer; without any it is a Qwen3.5.
    {.type = "qwen3_next",
     .class_name = "Qwen3NextForCausalLM",
     .architecture = "qwen35",
     .defaults = kDeltaNetDefaults,
     .read = read_qwen35,
     .write = write_qwen35,
     .names = with_each_expert(kQwen3NextNames),
     .norm_plus_1 = true,
     .packed_delta_net = true,
     .takes = is_dense_qwen3next},
    {.type = "qwen3_next",
     .class_name = "Qwen3NextForCausalLM",
     .architecture = "qwen3next",
     .defaults = kDeltaNetDefaults,
     .read = read_qwen35moe,
     .write = write_qwen3next,
     .names = with_each_expert(kQwen3NextNames),
     .norm_plus_1 = true,
     .packed_delta_net = true,
     .other_names = kQwen3NextNames},
    {"gpt2", "GPT2LMHeadModel", "gpt2", R"({"layer_norm_epsilon": 1e-5})", read_gpt2, write_gpt2, is_any, kGpt2Names,
     "transformer.h.", false, true},
};

bool alike(const ordered_json& a, const ordered_json& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-6 * std::abs(x);
}

// Whether heads of which `width` elements turn have the same angles.
bool same_angles(const RopeSpec& a, const RopeSpec& b, int64_t width) {
  const auto same = [](double x, double y) { return std::abs(x - y) <= 1e-6 * std::abs(x); };
  if (a.pairing != b.pairing || a.dims != b.dims || !same(rope_magnitude(a), rope_magnitude(b))) return false;
  if (!a.long_factors.empty() && a.original_context != b.original_context) return false;
  if (a.long_factors.size() != b.long_factors.size()) return false;
  for (const int64_t positions : {int64_t(1), int64_t(1) << 40}) {
    const std::vector<double> x = rope_frequencies(a, width, positions), y = rope_frequencies(b, width, positions);
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

// The part of a name between "blk.N." and ".weight", ".bias" or its end.
struct Parts {
  std::string_view layer, stem, kind;  // layer: "3", or "" outside of layers
};
Parts parts_of(std::string_view name) {
  Parts p;
  for (const std::string_view kind : {".weight", ".bias"})
    if (name.ends_with(kind)) p.kind = kind;
  name.remove_suffix(p.kind.size());
  if (name.starts_with("blk.")) {
    name.remove_prefix(4);
    p.layer = name.substr(0, name.find('.'));
    name.remove_prefix(p.layer.size() + 1);
  }
  p.stem = name;
  return p;
}

}  // namespace

std::span<const HfModel> models() { return kModels; }

const HfModel& model_of(Config& config) {
  if (config.has("text_config")) {
    Config text = config.object("text_config");
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings"})
      if (const json* value = config.find(key)) text.add_defaults(json_text(json{{key, *value}}));
    config = std::move(text);
  }
  const std::string type = config.text("model_type", "");
  std::string known;
  for (const HfModel& m : kModels) {
    if (m.type == type && (!m.takes || m.takes(config))) {
      config.add_defaults(m.defaults);
      return m;
    }
    if (!m.takes) known.append(known.empty() ? "" : ", ").append(m.type);
  }
  fail("{}: model_type '{}' is not supported; supported: {}", config.path(), type, known);
}

const HfModel& model_of(const ModelSpec& spec) {
  for (const HfModel& m : kModels)
    if (m.architecture == spec.architecture && m.fits(spec)) return m;
  fail("model {}: transformers has no class for this model of the architecture {}", spec.name, spec.architecture);
}

Reading read_config(const HfModel& model, const Config& config) {
  Reading r{spec_of(model.architecture, {}, config.path()), 1};
  model.read(config, r);
  ModelSpec& m = r.spec;
  m.name = model.type;
  // Families whose files always hold the output.
  if (m.tied && !holds(m, "tied") && !family_of(m).defaults.tied) m.tied = false;
  m.validate();
  return r;
}

ordered_json write_config(const HfModel& model, const ModelSpec& spec) {
  ordered_json c = {{"architectures", {model.class_name}}, {"model_type", model.type}};
  model.write(c, spec);
  // What the config does not say would silently be something else.
  Config config(json(c), "config.json");
  ModelSpec again = read_config(model_of(config), config).spec;
  const auto turned = std::find_if(spec.layers.begin(), spec.layers.end(),
                                   [](const LayerSpec& l) { return l.rope == LayerRope::global; });
  const LayerSpec& layer = turned == spec.layers.end() ? spec.layers.front() : *turned;
  if (same_angles(again.rope, spec.rope, layer.rope_dims > 0 ? layer.rope_dims : layer.d_head)) again.rope = spec.rope;
  for (size_t i = 0; i < spec.layers.size(); ++i) {  // how a GGUF holds them
    again.layers[i].fused_qkv = spec.layers[i].fused_qkv;
    again.layers[i].fused_gate_up = spec.layers[i].fused_gate_up;
  }
  const auto compare = [&](const std::string& where, const ordered_json& is, const ordered_json& said) {
    for (const auto& [key, value] : is.items())
      check(alike(value, said.at(key)), "model {}: {}{} is {}; the class {} of transformers cannot state that",
            spec.name, where, key, json_text(value), model.class_name);
  };
  compare("", fields_of(spec), fields_of(again));
  check(spec.rope.scaling == again.rope.scaling,
        "model {}: the class {} of transformers cannot state how rope is scaled", spec.name, model.class_name);
  for (size_t i = 0; i < spec.layers.size(); ++i)
    compare(fmt::format("layer {}: ", i), fields_of(spec.layers[i]), fields_of(again.layers[i]));
  return c;
}

std::string hf_name(const HfModel& model, std::string_view gguf_name) {
  const Parts p = parts_of(gguf_name);
  const auto in = [&](std::span<const TensorName> names, std::string_view gguf) {
    const auto it = std::find_if(names.begin(), names.end(), [&](const TensorName& n) { return n.gguf == gguf; });
    return it == names.end() ? std::string() : std::string(it->hf);
  };
  const std::string start = p.layer.empty() ? "" : fmt::format("{}{}.", model.layers, p.layer);
  for (const auto names : {model.names, std::span<const TensorName>(kUsualNames)}) {
    if (const std::string complete = in(names, fmt::format("{}{}", p.stem, p.kind)); !complete.empty())
      return start + complete;
    if (const std::string stem = in(names, p.stem); !stem.empty()) return fmt::format("{}{}{}", start, stem, p.kind);
  }
  fail("tensor '{}': the class {} has no such tensor", gguf_name, model.class_name);
}

}  // namespace toy::hf

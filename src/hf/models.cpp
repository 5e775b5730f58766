#include "hf/models.h"

#include <algorithm>

#include "hf/bert.h"
#include "hf/delta_net.h"
#include "hf/dimensions.h"
#include "hf/encoders.h"
#include "hf/gemmas.h"
#include "hf/gpt2.h"
#include "hf/kimi_linear.h"
#include "hf/lfm2.h"
#include "hf/mamba.h"
#include "hf/names.h"
#include "hf/rope.h"
#include "hf/vision.h"
#include "models/families/families.h"
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
  read_multipliers(c, r.spec);
}
void write_granite(ordered_json& c, const ModelSpec& m) {
  write_llama(c, m);
  write_multipliers(c, m);
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

bool is_any(const ModelSpec&) { return true; }
bool has_experts(const ModelSpec& m) { return m.layers.front().experts.count > 0; }
bool has_windows(const ModelSpec& m) {
  return std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.window > 0; });
}

constexpr const char* kGemma3Defaults =
    R"({"rms_norm_eps": 1e-6, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4,)"
    R"("vocab_size": 262208, "query_pre_attn_scalar": 256, "sliding_window": 4096, "_sliding_window_pattern": 6,)"
    R"("rope_theta": 1e6, "rope_local_base_freq": 10000, "max_position_embeddings": 131072})";

constexpr HfModel kModels[] = {
    {"llama", "LlamaForCausalLM", "llama", R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048})", read_llama,
     write_llama, [](const ModelSpec& m) { return !has_experts(m) && !has_windows(m); }},
    {"mistral", "MistralForCausalLM", "llama",
     R"({"rms_norm_eps": 1e-6, "num_key_value_heads": 8, "sliding_window": 4096, "max_position_embeddings": 131072})",
     read_mistral, write_mistral, [](const ModelSpec& m) { return !has_experts(m); }},
    {.type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .architecture = "llama",
     .defaults = R"({"rms_norm_eps": 1e-5, "num_key_value_heads": 8, "rope_theta": 1e6, "num_experts_per_tok": 2, )"
                 R"("num_local_experts": 8, "max_position_embeddings": 131072})",
     .read = read_mixtral,
     .write = write_mixtral,
     .fits = has_experts,
     .names = kMixtralNames,
     .renamed = kMixtralRenamed},
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
    {.type = "gemma3_text",
     .class_name = "Gemma3TextModel",
     .architecture = "gemma-embedding",
     .defaults = kGemma3Defaults,
     .read = read_gemma_embedding,
     .write = write_gemma_embedding,
     .names = kGemmaEmbeddingNames,
     .layers = "layers.",
     .norm_plus_1 = true,
     .takes = [](const Config& c) { return c.flag("use_bidirectional_attention", false); }},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", kGemma3Defaults, read_gemma3, write_gemma3, is_any,
     kNormsAroundNames, "model.layers.", true},
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
     .other_names = kQwen3NextNames,
     .parameters_in_peft = kParametersOfQwen3Next},
    {.type = "mamba2",
     .class_name = "Mamba2ForCausalLM",
     .architecture = "mamba2",
     .defaults = R"({"num_heads": 128, "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4,)"
                 R"("layer_norm_epsilon": 1e-5, "tie_word_embeddings": false, "max_position_embeddings": 1048576})",
     .read = read_mamba2,
     .write = write_mamba2,
     .names = kMixerNames,
     .layers = "backbone.layers.",
     .not_in_peft = kNotInPeftOfMamba},
    {.type = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .architecture = "granite",
     .defaults = kGraniteHybridDefaults,
     .read = read_granite_of_hybrid,
     .write = write_granite,  // never: GraniteForCausalLM is the same
     .names = kGraniteHybridNames,
     .takes = is_plain_granite},
    {.type = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .architecture = "granitehybrid",
     .defaults = kGraniteHybridDefaults,
     .read = read_granitehybrid,
     .write = write_granitehybrid,
     .fits = [](const ModelSpec& m) { return !turns_partly(m); },
     .names = kGraniteHybridNames},
    {.type = "bamba",
     .class_name = "BambaForCausalLM",
     .architecture = "granitehybrid",
     .defaults = R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 262144, "tie_word_embeddings": false,)"
                 R"("num_key_value_heads": 8, "partial_rotary_factor": 0.5, "mamba_n_heads": 128, "mamba_n_groups": 1,)"
                 R"("mamba_d_state": 256, "mamba_d_head": "auto", "mamba_d_conv": 4})",
     .read = read_bamba,
     .write = write_bamba,
     .names = kBambaNames},
    {.type = "nemotron_h",
     .class_name = "NemotronHForCausalLM",
     .architecture = "nemotron_h",
     .defaults = kNemotronHDefaults,
     .read = read_nemotron_h,
     .write = write_nemotron_h,
     .names = kMixerNames,
     .layers = "backbone.layers.",
     .takes = is_dense_nemotron_h,
     .never_ties = true,
     .renamed = kNemotronHRenamed,
     .not_in_peft = kNotInPeftOfMamba},
    {.type = "nemotron_h",
     .class_name = "NemotronHForCausalLM",
     .architecture = "nemotron_h_moe",
     .defaults = kNemotronHDefaults,
     .read = read_nemotron_h,
     .write = write_nemotron_h,
     .names = kMixerNames,
     .layers = "backbone.layers.",
     .never_ties = true,
     .renamed = kNemotronHRenamed,
     .not_in_peft = kNotInPeftOfMamba},
    {.type = "lfm2",
     .class_name = "Lfm2ForCausalLM",
     .architecture = "lfm2",
     .defaults = R"({"norm_eps": 1e-5, "max_position_embeddings": 128000, "num_key_value_heads": 8,)"
                 R"("rope_theta": 1e6, "conv_L_cache": 3, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1})",
     .read = read_lfm2,
     .write = write_lfm2,
     .names = kLfm2Names},
    {.type = "lfm2_moe",
     .class_name = "Lfm2MoeForCausalLM",
     .architecture = "lfm2moe",
     .defaults = R"({"norm_eps": 1e-5, "max_position_embeddings": 128000, "num_key_value_heads": 8,)"
                 R"("rope_theta": 1e6, "conv_L_cache": 3, "moe_intermediate_size": 1792, "num_dense_layers": 2,)"
                 R"("num_experts": 32, "num_experts_per_tok": 4})",
     .read = read_lfm2moe,
     .write = write_lfm2moe,
     .names = kLfm2Names},
    {.type = "kimi_linear",
     .class_name = "KimiLinearForCausalLM",
     .architecture = "kimi-linear",
     .defaults = R"({"rms_norm_eps": 1e-5, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,)"
                 R"("v_head_dim": 128, "routed_scaling_factor": 2.446, "moe_intermediate_size": 1024})",
     .read = read_kimi_linear,
     .write = write_kimi_linear,
     .names = kKimiLinearNames,
     .renamed = kKimiLinearRenamed},
    {.type = "vit",
     .class_name = "ViTForImageClassification",
     .architecture = "vit",
     .defaults = kVitDefaults,
     .read = read_vit,
     .write = write_vit,
     .fits = [](const ModelSpec& m) { return m.vision.class_token && !m.vision.distilled; },
     .names = kVitNames,
     .layers = "vit.encoder.layer."},
    {.type = "deit",
     .class_name = "DeiTForImageClassificationWithTeacher",
     .architecture = "vit",
     .defaults = kVitDefaults,
     .read = read_deit,
     .write = write_deit,
     .fits = [](const ModelSpec& m) { return m.vision.distilled; },
     .names = kDeitNames,
     .layers = "deit.encoder.layer."},
    {.type = kTimm,
     .class_name = "VisionTransformer",
     .architecture = "vit",
     .defaults = "{}",
     .read = read_timm,
     .write = write_timm,
     .names = kTimmNames,
     .layers = "blocks."},
    {"gpt2", "GPT2LMHeadModel", "gpt2", R"({"layer_norm_epsilon": 1e-5})", read_gpt2, write_gpt2, is_any, kGpt2Names,
     "transformer.h.", false, true},
};

}  // namespace

std::span<const HfModel> models() {
  static const std::vector<HfModel> all = [] {
    std::vector<HfModel> list(std::begin(kModels), std::end(kModels));
    list.insert(list.end(), encoder_models().begin(), encoder_models().end());
    return list;
  }();
  return all;
}

}  // namespace toy::hf

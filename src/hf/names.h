// What the classes of transformers call their tensors. What most share is kLlamaNames
// (models/adapters/adapter_parts.h).
#pragma once

#include <array>
#include <span>

#include "hf/models.h"

namespace toy::hf {

/// What no two classes call differently, besides kLlamaNames.
inline constexpr TensorName kUsualNames[] = {
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    {"ffn_up_exps", "mlp.experts.*.up_proj"},
    {"ffn_down_exps", "mlp.experts.*.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_a_log", "linear_attn.A_log"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
};
inline constexpr TensorName kMixtralNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
};
inline constexpr TensorName kNormsAroundNames[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
/// Those of dense layers are in folders of their own.
inline constexpr TensorName kGemmaEmbeddingNames[] = {
    {"token_embd", "embed_tokens"},
    {"output_norm", "norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"dense_2.weight", "2_Dense/linear.weight"},
    {"dense_3.weight", "3_Dense/linear.weight"},
};
inline constexpr TensorName kGemma4Names[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"layer_output_scale.weight", "layer_scalar"},
};
inline constexpr TensorName kPhi3Names[] = {
    {"attn_q", "self_attn.qkv_proj"}, {"attn_k", "self_attn.qkv_proj"}, {"attn_v", "self_attn.qkv_proj"},
    {"ffn_gate", "mlp.gate_up_proj"}, {"ffn_up", "mlp.gate_up_proj"},
};
inline constexpr TensorName kGraniteMoeNames[] = {
    {"ffn_gate_inp", "block_sparse_moe.router.layer"}, {"ffn_gate_exps", "block_sparse_moe.input_linear"},
    {"ffn_up_exps", "block_sparse_moe.input_linear"},  {"ffn_down_exps", "block_sparse_moe.output_linear"},
    {"ffn_gate_shexp", "shared_mlp.input_linear"},     {"ffn_up_shexp", "shared_mlp.input_linear"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
};
inline constexpr TensorName kGraniteHybridNames[] = {
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a_log", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_exps", "block_sparse_moe.input_linear"},
    {"ffn_up_exps", "block_sparse_moe.input_linear"},
    {"ffn_down_exps", "block_sparse_moe.output_linear"},
    {"ffn_gate", "shared_mlp.input_linear"},
    {"ffn_up", "shared_mlp.input_linear"},
    {"ffn_down", "shared_mlp.output_linear"},
    {"ffn_gate_shexp", "shared_mlp.input_linear"},
    {"ffn_up_shexp", "shared_mlp.input_linear"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
};
inline constexpr TensorName kBambaNames[] = {
    {"output_norm", "model.final_layernorm"},
    {"ffn_norm", "pre_ff_layernorm"},
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a_log", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_down", "feed_forward.down_proj"},
};
inline constexpr Renamed kNemotronHRenamed[] = {{"backbone.", "model."}};
inline constexpr std::string_view kNotInPeftOfMamba[] = {"mixer.out_proj"};
inline constexpr std::string_view kParametersOfQwen3Next[] = {"mlp.shared_expert."};
inline constexpr Renamed kMixtralRenamed[] = {{".block_sparse_moe.", ".mlp."}};
inline constexpr Renamed kKimiLinearRenamed[] = {
    {".f_a_proj", ".forget_gate.f_a_proj"}, {".f_b_proj", ".forget_gate.f_b_proj"}, {".block_sparse_moe.", ".mlp."}};
/// Mamba 2 and Nemotron-H, whose layers are all a "mixer".
inline constexpr TensorName kMixerNames[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a_log", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_output", "mixer.o_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
    {"ffn_gate_inp", "mixer.gate"},
    {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"},
    {"ffn_latent_down", "mixer.fc1_latent_proj"},
    {"ffn_latent_up", "mixer.fc2_latent_proj"},
    {"ffn_up_exps", "mixer.experts.*.up_proj"},
    {"ffn_down_exps", "mixer.experts.*.down_proj"},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
};
inline constexpr TensorName kLfm2Names[] = {
    {"output_norm", "model.embedding_norm"},
    {"attn_norm", "operator_norm"},
    {"ffn_norm", "ffn_norm"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"attn_output", "self_attn.out_proj"},
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
    {"ffn_gate", "feed_forward.w1"},
    {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"},
    {"ffn_gate_inp", "feed_forward.gate"},
    {"exp_probs_b.bias", "feed_forward.expert_bias"},
    {"ffn_gate_exps", "feed_forward.experts.*.w1"},
    {"ffn_up_exps", "feed_forward.experts.*.w3"},
    {"ffn_down_exps", "feed_forward.experts.*.w2"},
};
/// As published. transformers saves block_sparse_moe.gate_proj, ... of dense layers as well; see plain_name().
inline constexpr TensorName kKimiLinearNames[] = {
    {"ssm_conv1d_q", "self_attn.q_conv1d"},
    {"ssm_conv1d_k", "self_attn.k_conv1d"},
    {"ssm_conv1d_v", "self_attn.v_conv1d"},
    {"ssm_f_a", "self_attn.f_a_proj"},
    {"ssm_f_b", "self_attn.f_b_proj"},
    {"ssm_g_a", "self_attn.g_a_proj"},
    {"ssm_g_b", "self_attn.g_b_proj"},
    {"ssm_beta", "self_attn.b_proj"},
    {"ssm_a_log", "self_attn.A_log"},
    {"ssm_dt.bias", "self_attn.dt_bias"},
    {"ssm_norm", "self_attn.o_norm"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_k_b", "self_attn.kv_b_proj"},
    {"attn_v_b", "self_attn.kv_b_proj"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
    {"ffn_gate_shexp", "block_sparse_moe.shared_experts.gate_proj"},
    {"ffn_up_shexp", "block_sparse_moe.shared_experts.up_proj"},
    {"ffn_down_shexp", "block_sparse_moe.shared_experts.down_proj"},
};
inline constexpr TensorName kGptOssNames[] = {
    {"attn_sinks.weight", "self_attn.sinks"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};
/// The last three: where a folder has all experts in one tensor.
inline constexpr TensorName kQwen35Names[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
};
inline constexpr TensorName kQwen3NextNames[] = {
    {"attn_qkv", "linear_attn.in_proj_qkvz"},
    {"attn_gate", "linear_attn.in_proj_qkvz"},
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"ssm_beta", "linear_attn.in_proj_ba"},
    {"ssm_alpha", "linear_attn.in_proj_ba"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj"},
};
/// Without them.
constexpr std::span<const TensorName> with_each_expert(std::span<const TensorName> names) {
  return names.first(names.size() - 3);
}
/// Lists one after another.
template <size_t... N>
constexpr auto joined(const TensorName (&... lists)[N]) {
  std::array<TensorName, (N + ...)> all{};
  size_t n = 0;
  const auto add = [&](std::span<const TensorName> list) {
    for (const TensorName& t : list) all[n++] = t;
  };
  (add(lists), ...);
  return all;
}

/// BERT's kind: what is before the layers has a prefix where there is a head after them.
inline constexpr TensorName kBertLayers[] = {
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
    {"layer_output_norm", "output.LayerNorm"},
};
inline constexpr TensorName kBertEmbeddings[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
};
inline constexpr TensorName kBertEmbeddingsOfAll[] = {
    {"token_embd", "bert.embeddings.word_embeddings"},
    {"position_embd", "bert.embeddings.position_embeddings"},
    {"token_types", "bert.embeddings.token_type_embeddings"},
    {"token_embd_norm", "bert.embeddings.LayerNorm"},
};
inline constexpr TensorName kRobertaEmbeddingsOfAll[] = {
    {"token_embd", "roberta.embeddings.word_embeddings"},
    {"position_embd", "roberta.embeddings.position_embeddings"},
    {"token_types", "roberta.embeddings.token_type_embeddings"},
    {"token_embd_norm", "roberta.embeddings.LayerNorm"},
};
inline constexpr TensorName kJinaBertLayers[] = {
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_gate", "mlp.gated_layers"},
    {"ffn_up", "mlp.gated_layers"},
    {"ffn_down", "mlp.wo"},
    {"layer_output_norm", "mlp.layernorm"},
};
inline constexpr TensorName kBertRankerHead[] = {
    {"cls", "bert.pooler.dense"},
    {"cls.output", "classifier"},
};
inline constexpr TensorName kBertMaskHead[] = {
    {"mlm.dense", "cls.predictions.transform.dense"},
    {"mlm.norm", "cls.predictions.transform.LayerNorm"},
    {"mlm.bias", "cls.predictions.bias"},
};
inline constexpr TensorName kRobertaRankerHead[] = {
    {"cls", "classifier.dense"},
    {"cls.output", "classifier.out_proj"},
};
inline constexpr TensorName kRobertaMaskHead[] = {
    {"mlm.dense", "lm_head.dense"},
    {"mlm.norm", "lm_head.layer_norm"},
    {"mlm.bias", "lm_head.bias"},
};
inline constexpr auto kBertNames = joined(kBertEmbeddings, kBertLayers);
/// JinaBertModel with gated ffns; without, it has BERT's names.
inline constexpr auto kJinaBertNames = joined(kBertEmbeddings, kJinaBertLayers);
/// BertForSequenceClassification, BertForMaskedLM.
inline constexpr auto kBertRankerNames = joined(kBertEmbeddingsOfAll, kBertLayers, kBertRankerHead);
inline constexpr auto kBertMaskNames = joined(kBertEmbeddingsOfAll, kBertLayers, kBertMaskHead);
/// RobertaForSequenceClassification, RobertaForMaskedLM, and those of XLM-RoBERTa.
inline constexpr auto kRobertaRankerNames = joined(kRobertaEmbeddingsOfAll, kBertLayers, kRobertaRankerHead);
inline constexpr auto kRobertaMaskNames = joined(kRobertaEmbeddingsOfAll, kBertLayers, kRobertaMaskHead);
inline constexpr TensorName kNomicBertBody[] = {
    {"token_embd", "embeddings.word_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "emb_ln"},
    {"attn_q", "attn.Wqkv"},
    {"attn_k", "attn.Wqkv"},
    {"attn_v", "attn.Wqkv"},
    {"attn_output", "attn.out_proj"},
    {"attn_output_norm", "norm1"},
    {"ffn_down", "mlp.fc2"},
    {"layer_output_norm", "norm2"},
};
inline constexpr TensorName kNomicBertGate[] = {
    {"ffn_up", "mlp.fc11"},
    {"ffn_gate", "mlp.fc12"},
};
inline constexpr TensorName kNomicBertExperts[] = {
    {"ffn_up", "mlp.fc1"},
    {"ffn_gate_inp", "mlp.router.layer"},
    {"ffn_up_exps.weight", "mlp.experts.mlp.w1"},
    {"ffn_down_exps.weight", "mlp.experts.mlp.w2"},
};
inline constexpr auto kNomicBertNames = joined(kNomicBertBody, kNomicBertGate);
inline constexpr auto kNomicBertMoeNames = joined(kNomicBertBody, kNomicBertExperts);
/// What is added to the sum of the experts; a GGUF has no place for it.
inline constexpr std::string_view kNomicBertExpertsBias = "mlp.experts.bias";
inline constexpr std::string_view kNotInPeftOfNomic[] = {"mlp.experts"};
inline constexpr TensorName kModernBertLayers[] = {
    {"attn_norm", "attn_norm"}, {"attn_q", "attn.Wqkv"},    {"attn_k", "attn.Wqkv"},
    {"attn_v", "attn.Wqkv"},    {"attn_output", "attn.Wo"}, {"ffn_norm", "mlp_norm"},
    {"ffn_gate", "mlp.Wi"},     {"ffn_up", "mlp.Wi"},       {"ffn_down", "mlp.Wo"},
};
inline constexpr TensorName kModernBertEnds[] = {
    {"token_embd", "embeddings.tok_embeddings"},
    {"token_embd_norm", "embeddings.norm"},
    {"output_norm", "final_norm"},
};
inline constexpr TensorName kModernBertEndsOfAll[] = {
    {"token_embd", "model.embeddings.tok_embeddings"},
    {"token_embd_norm", "model.embeddings.norm"},
    {"output_norm", "model.final_norm"},
};
inline constexpr TensorName kModernBertRankerHead[] = {
    {"cls", "head.dense"},
    {"cls.norm", "head.norm"},
    {"cls.output", "classifier"},
};
inline constexpr TensorName kModernBertMaskHead[] = {
    {"mlm.dense", "head.dense"},
    {"mlm.norm", "head.norm"},
    {"mlm.bias", "decoder.bias"},
};
inline constexpr auto kModernBertNames = joined(kModernBertEnds, kModernBertLayers);
inline constexpr auto kModernBertRankerNames = joined(kModernBertEndsOfAll, kModernBertLayers, kModernBertRankerHead);
inline constexpr auto kModernBertMaskNames = joined(kModernBertEndsOfAll, kModernBertLayers, kModernBertMaskHead);
inline constexpr TensorName kGpt2Names[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"attn_norm", "ln_1"},
    {"ffn_norm", "ln_2"},
    {"attn_q", "attn.c_attn"},
    {"attn_k", "attn.c_attn"},
    {"attn_v", "attn.c_attn"},
    {"attn_output", "attn.c_proj"},
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
};

}  // namespace toy::hf

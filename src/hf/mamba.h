// Models with Mamba-2 layers in config.json: Mamba 2, the hybrids of Granite 4, Bamba, Nemotron-H.
#pragma once

#include "hf/config.h"
#include "hf/models.h"

namespace toy::hf {

/// What files leave out.
inline constexpr const char* kGraniteHybridDefaults =
    R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "embedding_multiplier": 1, "logits_scaling": 1,)"
    R"("residual_multiplier": 1, "attention_multiplier": 1, "num_local_experts": 8, "num_experts_per_tok": 2,)"
    R"("shared_intermediate_size": 1024, "tie_word_embeddings": false, "mamba_n_heads": 128, "mamba_n_groups": 1,)"
    R"("mamba_d_state": 256, "mamba_d_head": "auto", "mamba_d_conv": 4})";
inline constexpr const char* kNemotronHDefaults =
    R"({"layer_norm_epsilon": 1e-5, "max_position_embeddings": 4096, "tie_word_embeddings": false,)"
    R"("num_key_value_heads": 8, "intermediate_size": 21504, "ssm_state_size": 128, "mamba_num_heads": 128,)"
    R"("mamba_head_dim": 64, "n_groups": 8, "conv_kernel": 4, "n_routed_experts": 8, "num_experts_per_tok": 2,)"
    R"("moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688, "routed_scaling_factor": 1})";

/// @{
/// From a config into a spec, and back.
void read_mamba2(const Config& c, Reading& r);
void write_mamba2(nlohmann::ordered_json& c, const ModelSpec& m);
/// GraniteMoeHybrid, dense or with experts.
void read_granitehybrid(const Config& c, Reading& r);
void write_granitehybrid(nlohmann::ordered_json& c, const ModelSpec& m);
/// The same class without a Mamba layer and without experts: in a GGUF it is a Granite.
void read_granite_of_hybrid(const Config& c, Reading& r);
void read_bamba(const Config& c, Reading& r);
void write_bamba(nlohmann::ordered_json& c, const ModelSpec& m);
/// Nemotron-H, dense or with experts.
void read_nemotron_h(const Config& c, Reading& r);
void write_nemotron_h(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}

/// Does this config of GraniteMoeHybrid say that all layers are attention and a dense ffn?
bool is_plain_granite(const Config& c);
/// Does this config of Nemotron-H say that no layer has experts?
bool is_dense_nemotron_h(const Config& c);
/// Do only parts of heads turn?
bool turns_partly(const ModelSpec& m);

}  // namespace toy::hf

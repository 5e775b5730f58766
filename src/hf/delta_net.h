// Qwen3-Next and Qwen3.5, whose layers are Gated DeltaNet and attention: their configs, and the order of rows.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "hf/models.h"

namespace toy::hf {

/// What files of Qwen3-Next and Qwen3.5 leave out.
inline constexpr const char* kDeltaNetDefaults =
    R"({"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 256, "partial_rotary_factor": 0.25,)"
    R"("tie_word_embeddings": false, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,)"
    R"("linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,)"
    R"("moe_intermediate_size": 512, "shared_expert_intermediate_size": 512})";

/// @{
/// Qwen3.5 and Qwen3-Next, dense and with experts.
void read_qwen35(const Config& c, Reading& r);
void read_qwen35moe(const Config& c, Reading& r);
void write_qwen35(nlohmann::ordered_json& c, const ModelSpec& m);
void write_qwen35moe(nlohmann::ordered_json& c, const ModelSpec& m);
void write_qwen3next(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}
/// Does this config of Qwen3-Next say that no layer has experts?
bool is_dense_qwen3next(const Config& c);

/// The rows of a Gated DeltaNet's tensor in its folder, in the order of the GGUF: value heads of a key head are
/// neighbours there, and not in a GGUF of Qwen3.5. `stem`: "attn_qkv", ... `packed`: one tensor holds q, k, v and z,
/// and one beta and alpha, by key heads (Qwen3-Next). None: all rows, as they are.
std::optional<std::vector<int64_t>> rows_of_delta_net(const DeltaNet& d, std::string_view stem, bool packed);
/// The same of the columns of "ssm_out".
std::vector<int64_t> columns_of_delta_net(const DeltaNet& d);

}  // namespace toy::hf

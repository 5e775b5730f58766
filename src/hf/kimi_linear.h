// Kimi Linear: its config, and the rows of its latent attention.
#pragma once

#include <string_view>
#include <vector>

#include "hf/models.h"
#include "hf/pieces.h"

namespace toy::hf {

/// @{
/// From a config into a spec, and back.
void read_kimi_linear(const Config& c, Reading& r);
void write_kimi_linear(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}

/// Rows of "attn_k_b" or "attn_v_b", head by head, within a folder's `kv_b_proj`, where those of a head's key and value
/// take turns. None: another tensor.
std::vector<Run> rows_of_latent(const LayerSpec& l, std::string_view stem);

}  // namespace toy::hf

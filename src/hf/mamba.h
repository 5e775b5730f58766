// Models with Mamba-2 layers in config.json: Mamba 2, the hybrids of Granite 4, Bamba, Nemotron-H.
#pragma once

#include "hf/config.h"
#include "hf/models.h"

namespace toy::hf {

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

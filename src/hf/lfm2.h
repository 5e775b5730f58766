// LFM2, dense and with experts, in config.json.
#pragma once

#include "hf/config.h"
#include "hf/models.h"

namespace toy::hf {

/// @{
/// From a config into a spec, and back.
void read_lfm2(const Config& c, Reading& r);
void write_lfm2(nlohmann::ordered_json& c, const ModelSpec& m);
void read_lfm2moe(const Config& c, Reading& r);
void write_lfm2moe(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}

}  // namespace toy::hf

// Kimi Linear: its config.
#pragma once

#include "hf/models.h"

namespace toy::hf {

/// @{
/// From a config into a spec, and back.
void read_kimi_linear(const Config& c, Reading& r);
void write_kimi_linear(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}

}  // namespace toy::hf

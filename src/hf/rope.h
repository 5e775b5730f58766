// Rotary positions in config.json: `rope_theta` and `rope_scaling`, or, since transformers 5, `rope_parameters`.
#pragma once

#include "hf/config.h"
#include "toy/models/rope.h"

namespace toy::hf {

/// The parameters of layers of this kind ("full_attention"): transformers 5 has one object for all of them, or one for
/// each. Older files have keys of the config, whose names these are.
Config rope_parameters(const Config& config, std::string_view layers, std::string_view theta = "rope_theta",
                       std::string_view scaling = "rope_scaling");
/// Throws naming the file for a kind of scaling that is not supported.
void read_rope(const Config& parameters, int64_t context, int64_t width, RopeSpec& rope);
/// The parameters of rope that turns the first pairs of a head of this width as if all of them turned, and not the
/// others. Throws for factors that are none of this.
nlohmann::ordered_json proportional_rope(const RopeSpec& rope, int64_t width);
/// Writes `rope_theta` and `rope_scaling`, which every version reads.
void write_rope(nlohmann::ordered_json& config, const RopeSpec& rope, int64_t context, int64_t width);

}  // namespace toy::hf

// What most classes of transformers say in config.json, and in the same words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hf/config.h"
#include "hf/models.h"
#include "toy/models/spec.h"

namespace toy::hf {

/// What a list of layers calls a mixer. Of several names of one, the first is written.
struct MixerName {
  std::string_view name;
  MixerKind mixer;
};

/// The decimal number that people would write for an f32.
double shortest(float v);

/// @{
/// From a config into a spec. They throw naming file and key for what is not supported.
/// `eps` is the key of the norms' epsilon. The family's default layers repeat.
void read_sizes(const Config& c, ModelSpec& m, int64_t layers, std::string_view eps);
/// The same, context, heads and the width of the ffn.
void read_widths(const Config& c, ModelSpec& m, std::string_view d_ff = "intermediate_size",
                 std::string_view eps = "rms_norm_eps");
/// Which of so many layers are of this kind (the others: full_attention): `layer_types`, else all but every `every`-th;
/// 0: all.
std::vector<bool> listed_layers(const Config& c, size_t layers, std::string_view kind, int64_t every);
/// The mixers that a list of names states, one for each layer.
std::vector<MixerKind> listed_mixers(const Config& c, std::string_view key, size_t layers,
                                     std::span<const MixerName> names);
/// Throws unless both lists, stated under these keys, are equal.
void require_same_mixers(const Config& c, const std::vector<MixerKind>& a, std::string_view key_a,
                         const std::vector<MixerKind>& b, std::string_view key_b);
/// Windows of the layers in `layer_types`, else of all but every `every`-th; 0: of all.
void read_windows(const Config& c, ModelSpec& m, int64_t every);
/// Qwen and SmolLM3 state a window that they mostly do not use.
void read_unused_window(const Config& c, ModelSpec& m);
/// Of a model whose layers share it.
void read_model_rope(const Config& c, ModelSpec& m);
void read_biases(const Config& c, ModelSpec& m);
/// `count` is the key of the number of experts.
void read_experts(const Config& c, ModelSpec& m, std::string_view count);
/// Widths, rope and biases.
/// Granite's factors of embeddings, residuals, logits and scores.
void read_multipliers(const Config& c, ModelSpec& m);
void write_multipliers(nlohmann::ordered_json& c, const ModelSpec& m);
void read_llama(const Config& c, Reading& r);
/// @}

/// @{
/// The same from a spec into a config.
void write_llama(nlohmann::ordered_json& c, const ModelSpec& m);
void write_experts(nlohmann::ordered_json& c, const ModelSpec& m, const char* count);
void write_windows(nlohmann::ordered_json& c, const ModelSpec& m);
std::vector<std::string> mixer_names(const ModelSpec& m, std::span<const MixerName> names);
/// @}

}  // namespace toy::hf

// The Gemmas in config.json.
#pragma once

#include "hf/config.h"
#include "hf/models.h"

namespace toy::hf {

/// @{
/// From a config into a spec, and back. The first is read as Llama is.
void write_gemma(nlohmann::ordered_json& c, const ModelSpec& m);
void read_gemma2(const Config& c, Reading& r);
void write_gemma2(nlohmann::ordered_json& c, const ModelSpec& m);
void read_gemma3(const Config& c, Reading& r);
void write_gemma3(nlohmann::ordered_json& c, const ModelSpec& m);
/// EmbeddingGemma: a Gemma3TextModel with `use_bidirectional_attention`. Of the maps of its embedding, modules.json
/// says.
void read_gemma_embedding(const Config& c, Reading& r);
void write_gemma_embedding(nlohmann::ordered_json& c, const ModelSpec& m);
void read_gemma4(const Config& c, Reading& r);
void write_gemma4(nlohmann::ordered_json& c, const ModelSpec& m);
/// @}

}  // namespace toy::hf

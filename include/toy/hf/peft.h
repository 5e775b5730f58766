// Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <string>

#include "toy/models/adapter.h"

namespace toy::hf {

/// Is this a folder with an adapter_config.json?
bool is_peft_folder(const std::string& path);
/// Adds the adapter of a folder to a model, multiplied by `scale`. Throws Error{bad_input} naming file and tensor for
/// an adapter of another model, and for what is neither LoRA nor DoRA of linear maps and embeddings (biases, other
/// modules).
void load_peft(Model& model, const std::string& folder, double scale = 1);
/// Writes adapter `number` of a model as such a folder, in f32. `base`: where PEFT finds the model, may be "". Throws
/// Error{bad_input} for a model that transformers has no class for, and a weight that is a part of another one there.
void save_peft(const Model& model, size_t number, const std::string& folder, const std::string& base = {});

}  // namespace toy::hf

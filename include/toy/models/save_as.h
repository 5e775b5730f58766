// Models in files of any type: floats, or the mixes of `toy quantize`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "toy/models/model.h"

namespace toy {

/// How a model file stores its matrices.
struct StoredAs {
  DType plain = DType::f32;  ///< f32, f16 or bf16, where there is no mix
  std::string mix = {};      ///< one of gguf::mix_names(); "": none
};
/// "f32", "f16", "bf16", and the mixes in small letters.
std::vector<std::string> stored_names();
/// One of these names; case does not matter. Throws Error{bad_input} with `option`, `text` and the nearest name.
StoredAs parse_stored_as(std::string_view option, const std::string& text);

/// Calls `use` with a file beside `path` that has the model in f32, and removes it.
void with_f32_file(const Model& model, const std::string& path, const std::function<void(const gguf::File&)>& use);
/// save_model(); in a mix by way of with_f32_file() and gguf::requantize(), whose bytes these are.
void save_model(const Model& model, const std::string& path, const StoredAs& stored);

}  // namespace toy

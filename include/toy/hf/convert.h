// Models in Hugging Face folders (config.json, safetensors, tokenizer) as GGUF, and back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/tensor/dtype.h"
#include "toy/text/tokenizer.h"

namespace toy::hf {

/// What both directions need to know.
struct ConvertOptions {
  std::optional<DType> type;  ///< of matrices: f32, f16 or bf16; none: as they are (quantized ones as f16)
  bool tokenizer = true;      ///< false: leave it out
  /// The chat template to write instead of the model's own, which may depend on the vocabulary.
  std::function<std::string(const Tokenizer& tokenizer)> chat_template = {};
  /// Of a folder: the model answers "yes" or "no" to whether a document fits a query (Qwen3-Reranker). The GGUF gets
  /// "cls.output", the output's rows for both, and the template of what it reads.
  bool reranker = false;
  /// Called after each tensor with how many are done, and of how many. What it throws ends the work, and nothing
  /// remains.
  std::function<void(size_t done, size_t total)> progress = {};
};

/// What was written.
struct Converted {
  std::string architecture;           ///< of the GGUF
  std::string class_name;             ///< of transformers
  size_t tensors = 0;                 ///< of the file that was written
  std::vector<std::string> warnings;  ///< what the user should know
};

/// Is this a folder with a config.json?
bool is_model_folder(const std::string& path);

/// Writes the model of a folder as a GGUF, tensor by tensor, so that memory is bounded, and atomically. Norms, biases
/// and routers are F32. Throws Error{bad_input} naming file and reason: a class that is not supported, a shard or
/// tensor that is missing, a tensor that is unknown or of another shape, a tokenizer that is not supported.
Converted convert_folder(const std::string& folder, const std::string& gguf, const ConvertOptions& options = {});

/// Writes a GGUF as a folder that transformers loads: config.json, model.safetensors, generation_config.json and the
/// tokenizer. The folder appears when it is complete. Throws Error{bad_input} for a folder that exists and is not
/// empty, a model that transformers has no class for, and a dimension that config.json cannot state.
Converted convert_gguf(const gguf::File& file, const std::string& folder, const ConvertOptions& options = {});

}  // namespace toy::hf

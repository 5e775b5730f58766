// Adapters as people write them, and what is wrong with a model's file.
#pragma once

#include <string>
#include <vector>

#include "toy/find/find_model.h"
#include "toy/models/model.h"

namespace toy {

/// An adapter of a model: the file or PEFT folder, its scale, and its name.
struct GivenAdapter {
  std::string path;
  double scale = 1;
  std::string name = {};  ///< by default that of the file or folder
};
/// Of "FILE[:SCALE]", or if `named` "[NAME=]FILE[:SCALE]".
GivenAdapter parse_adapter(const std::string& text, bool named, const ModelFinder& finder);
/// Adds them to a model, in their order. Throws Error{bad_input} for one that is of another model.
void apply_adapters(Model& model, const std::vector<GivenAdapter>& given);

/// Throws Error{bad_input} with the reason where the model of this file has no tokenizer; `way_out` ends the message.
void require_tokenizer(const Model& model, const std::string& path,
                       const char* way_out = "give a model with another tokenizer");

/// For a computation that has failed: throws Error{bad_input} naming the first tensor of the file that holds NaN or
/// infinity, if there is one. (Quantized tensors are checked when a model is loaded.)
void refuse_broken_weights(const std::string& path);

}  // namespace toy

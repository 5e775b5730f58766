// The from-scratch recipe: a text becomes a tokenizer, a model, a GGUF.
#pragma once

#include <string>

#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recipe is told.
struct FromScratchOptions : RecipeOptions {
  std::string size = "small";       ///< a named size or a JSON file
  std::string layers = {};          ///< set_layers() of the size, "" for its own
  std::string tokenizer = "bytes";  ///< as make_tokenizer() takes it: "bytes", "bpe:V", ...
  double init_scale = 1.0;          ///< matrices start as N(0, init_scale / sqrt(fan_in))
};

/// Checks everything that can be checked (options, files, dimensions, memory, the output folder) before the first step.
/// Throws Error{bad_input} for what the caller can mend. Deterministic: the same options give the same bytes.
TrainResult train_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

// The warm-start recipe: the weights and the tokenizer of a GGUF, trained on.
#pragma once

#include <string>

#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recipe is told.
struct WarmStartOptions : RecipeOptions {
  std::string init;  ///< path of a GGUF with a tokenizer
};

/// As train_from_scratch(), with the weights of `init` in f32 and new optimizer moments. The file stays as it is.
TrainResult train_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

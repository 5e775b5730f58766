// The warm-start recipe: the weights and the tokenizer of a GGUF, trained on, or a model of another size that begins
// with them.
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

/// What the recipe is told of a model of another size; `init` is the donor.
struct GrowOptions : WarmStartOptions {
  std::string size = "small";  ///< a named size or a JSON file
  /// How the map behind the donor's embeddings begins: "random", "pca", or "none" for a model of the donor's width,
  /// whose embeddings are copied and trained; "": none where the widths agree, else random. See docs/warm-start.md.
  std::string lens = {};
  bool copy_blocks = true;  ///< begin with the donor's blocks, cut or repeated; false: at random
};

/// A model of size `size` with the tokenizer of a donor, which begins with its embeddings and blocks. With a lens the
/// embeddings stay in the donor's file, and the result has their product with the lens: `<out>/model.gguf` is a model
/// like others. Every choice is told as a note. Throws Error{bad_input} for a lens that cannot be.
TrainResult train_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

// The warm-start recipe: the weights and the tokenizer of a GGUF, trained on, or a model of another size that begins
// with them.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "toy/data/masks.h"
#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recipe is told.
struct WarmStartOptions : RecipeOptions {
  std::string init;        ///< path of a GGUF with a tokenizer
  MaskOptions masks = {};  ///< where it fills in masks
};

/// As train_from_scratch(), with the weights of `init` in f32 and new optimizer moments. The file stays as it is.
TrainResult train_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_warm_start(const WarmStartOptions& options, Device& device, TrainObserver& observer);

/// What the recipe is told of a model of another size; `init` is the donor.
struct GrowOptions : WarmStartOptions {
  std::string size = "small";  ///< a named size or a JSON file
  /// How the map behind the donor's embeddings begins; none: for a model of the donor's width, whose embeddings are
  /// copied and trained; as_needed: none where the widths agree, else random. See docs/warm-start.md.
  enum Lens { as_needed, random, pca, none } lens = as_needed;
  enum Blocks { copied, fresh } blocks = copied;  ///< begin with the donor's blocks, cut or repeated, or at random

  /// Those that other recipes lack, and those of WarmStartOptions; see toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Model";
    f(text_option("init", "GGUF file, or name in `toy list`, to train further", k, "FILE"), o.init);
    f(text_option("donor", "GGUF file, or name in `toy list`, to begin a model of --size with", k, "FILE"), o.init);
    f({"size", "With --donor: size or JSON file of dimensions: {}", {}, k}, o.size);
    f({"lens", "With --donor: how the map of its embeddings begins", {}, k}, o.lens);
    MaskOptions::fields(o.masks, f);
    f({"blocks", "With --donor: begin with its blocks, or with random ones", {}, k}, o.blocks);
  }
};
/// Their names.
template <>
struct NamesOf<GrowOptions::Lens> {
  static constexpr std::array list = {std::pair("random", GrowOptions::random), std::pair("pca", GrowOptions::pca),
                                      std::pair("none", GrowOptions::none)};
};
/// Their names.
template <>
struct NamesOf<GrowOptions::Blocks> {
  static constexpr std::array list = {std::pair("copy", GrowOptions::copied), std::pair("random", GrowOptions::fresh)};
};

/// A model of size `size` with the tokenizer of a donor, which begins with its embeddings and blocks. With a lens the
/// embeddings stay in the donor's file, and the result has their product with the lens: `<out>/model.gguf` is a model
/// like others. Every choice is told as a note. Throws Error{bad_input} for a lens that cannot be.
TrainResult train_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_from_donor(const GrowOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

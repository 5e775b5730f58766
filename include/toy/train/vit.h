// The recipe for classifiers of pictures: a folder of them becomes a vision transformer, a GGUF.
#pragma once

#include <string>
#include <utility>

#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recipe is told, besides RecipeOptions::data.images.
struct VitOptions : RecipeOptions {
  std::string size = "vit-micro";  ///< a named size or a JSON file
  int64_t patch = 0;               ///< side of a patch; 0: 2 for pictures of up to 16 pixels, 4 up to 64, else 16
  enum Pooling { mean, token } pooling = mean;             ///< VisionSpec::class_token
  enum Positions { learned, sincos } positions = learned;  ///< sincos: a table that stays as it is
  double init_scale = 1.0;                                 ///< matrices start as N(0, init_scale / sqrt(fan_in))

  /// Those that other recipes lack; see toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Model";
    f({"size", "Size or JSON file of dimensions: {}", {}, k, "", "", "", "vit-micro|vit-lite|vit-tiny|FILE:"}, o.size);
    f({"patch", "Side of a patch in pixels; 0 takes 2, 4 or 16 as the pictures' size has it", from_to(0, 4096), k},
      o.patch);
    f({"pooling", "What the class follows from: the mean of all patches, or a token of its own", {}, k}, o.pooling);
    f({"positions", "Learned, or fixed sines and cosines", {}, k}, o.positions);
    f({"init_scale", "Scale of the initial weights, N(0, scale / sqrt(columns))", above(0), k}, o.init_scale);
  }
};
/// Their names.
template <>
struct NamesOf<VitOptions::Pooling> {
  static constexpr std::array list = {std::pair("mean", VitOptions::mean), std::pair("token", VitOptions::token)};
};
/// Their names.
template <>
struct NamesOf<VitOptions::Positions> {
  static constexpr std::array list = {std::pair("learned", VitOptions::learned),
                                      std::pair("sincos", VitOptions::sincos)};
};

/// Checks everything that can be checked before the first step. Throws Error{bad_input} for what the caller can change.
/// Deterministic: the same options give the same bytes.
TrainResult train_vit(const VitOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_vit(const VitOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

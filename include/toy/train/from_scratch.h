// The from-scratch recipe: a text becomes a tokenizer, a model, a GGUF.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "toy/train/estimate.h"
#include "toy/train/recipe.h"

namespace toy {

/// What the recipe is told.
struct FromScratchOptions : RecipeOptions {
  std::string size = "small";       ///< a named size or a JSON file
  std::string layers = {};          ///< set_layers() of the size, "" for its own
  std::string tokenizer = "bytes";  ///< as make_tokenizer() takes it, or a GGUF or SentencePiece file
  /// The next token, or masks that are filled in (of encoders), and of how many tokens.
  enum Objective { next, mlm } objective = next;
  MaskOptions masks = {};
  double init_scale = 1.0;  ///< matrices start as N(0, init_scale / sqrt(fan_in))

  /// Those that other recipes lack; see toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Model";
    f({"size", "Size or JSON file of dimensions: {}", {}, k}, o.size);
    f({"layers", "Mixers of the layers, like gdn*3,attn (toy help training.md lists them)", {}, k}, o.layers);
    f({"objective", "Learn the next token, or with mlm hidden tokens (encoders)", {}, k}, o.objective);
    MaskOptions::fields(o.masks, f);
    f(text_option("tokenizer", "bytes, bpe:V, spm:V, unigram:V (V tokens), or a model file", k,
                  "bytes|bpe:|spm:|unigram:"),
      o.tokenizer);
    f({"tokenizer_bytes", "Bytes of the corpus to train the tokenizer on, at most", at_least(1), k},
      o.data.tokenizer_bytes);
    f({"init_scale", "Scale of the initial weights, N(0, scale / sqrt(columns))", above(0), k}, o.init_scale);
  }
};

/// Their names.
template <>
struct NamesOf<FromScratchOptions::Objective> {
  static constexpr std::array list = {std::pair("next", FromScratchOptions::next),
                                      std::pair("mlm", FromScratchOptions::mlm)};
};

/// Checks everything that can be checked (options, files, dimensions, memory, the output folder) before the first step.
/// Throws Error{bad_input} for what the caller can mend. Deterministic: the same options give the same bytes.
TrainResult train_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer);
/// What that will need. Writes nothing.
RunEstimate estimate_from_scratch(const FromScratchOptions& options, Device& device, TrainObserver& observer);

}  // namespace toy

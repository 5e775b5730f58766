// Texts to embed, as commands and bindings give them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/base/options.h"
#include "toy/decode/encoder.h"

namespace toy::bind {

/// A text, or token ids.
struct TextToEmbed {
  std::string where;  ///< begins messages
  std::string text;
  std::vector<int32_t> ids = {};  ///< instead of the text, unless empty
};

/// The ids of texts, each after `prefix`. A longer text than the model takes is cut, and so marked. Throws
/// Error{bad_input} for an empty text, ids that the model does not have, and a text where it has no tokenizer;
/// `way_out`: see require_tokenizer().
std::vector<std::vector<int32_t>> ids_to_embed(const Model& model, const std::string& path,
                                               std::span<const TextToEmbed> texts, const std::string& prefix,
                                               const char* way_out, std::vector<bool>& cut);

/// What becomes of texts, as `toy embed` has it.
struct EmbedTextOptions {
  std::string pooling, prefix;
  int64_t dimensions = 0;
  bool normalize = true;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f(text_option("pooling", "Vectors of tokens to one of the text; by default as the model's file says", "Embeddings",
                  "mean|cls|last|none"),
      o.pooling);
    f({"dimensions", "Keep the first N numbers, of models trained for it; 0 keeps all", at_least(0), "Embeddings"},
      o.dimensions);
    f({"normalize", "Scale vectors to length 1", {}, "Embeddings"}, o.normalize);
    f(text_option("prefix", "Put this before each text, such as 'query: '", "Texts", "TEXT"), o.prefix);
  }
  /// With what the model's file says. Throws Error{bad_input}; `dash` begins the names of options.
  EmbedOptions of(const Model& model, std::string_view dash = "") const;
};

}  // namespace toy::bind

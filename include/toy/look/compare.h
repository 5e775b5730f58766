// Two readings of one text: by two models, or by one with and without some of its heads. docs/look.md defines the
// numbers.
#pragma once

#include <string_view>

#include "toy/look/look.h"

namespace toy {

/// A head of attention, counted from 0.
struct HeadId {
  int64_t layer = 0, head = 0;
  bool operator==(const HeadId&) const = default;
};
/// "3.1" is head 1 of layer 3. Throws Error{bad_input} for other texts.
HeadId parse_head(std::string_view text);

/// A model that reads, perhaps without what some heads of its attention give: their outputs are 0 (ablation).
struct Reading {
  const Model& model;
  std::vector<HeadId> without = {};
};

/// How the rows at one point of two readings differ.
struct PointDifference {
  /// [T], nats: from what the first one would predict there to what the second one would (logit lens of each).
  std::vector<double> kl;
  std::vector<double> rows;  ///< [T], norm of the difference of the rows divided by that of the first one's
};
/// The same of the rows that leave a layer.
struct LayerDifference : PointDifference {
  /// [H][T], 0 to 1: the share of the attention of each token that went elsewhere, half the sum of the differences of
  /// its weights.
  std::vector<std::vector<double>> attention;
};
/// All of it.
struct LookDifference {
  std::vector<int32_t> ids;              ///< [T]
  std::vector<LensPoint> before, after;  ///< [T], the outputs of the two; `kl` of `after` is from `before`
  PointDifference embedding;
  std::vector<LayerDifference> layers;
  /// Mean of -log p of the tokens but the first, nats; NaN for one token.
  static double loss(const std::vector<LensPoint>& output);
};

/// Why these models cannot be compared layer by layer: other tokens, another width, other layers. "" where they can.
std::string incomparable(const Model& before, const Model& after);
/// Reads the tokens twice, as look() does. Throws Error{bad_input} as look() does, for models that cannot be compared
/// and for heads that a model does not have.
LookDifference compare_looks(Device& device, const Reading& before, const Reading& after, std::span<const int32_t> ids,
                             const LookOptions& options = {});

/// {"ids", "tokens": [{"id", "text", "loss": {"before", "after"}, "kl", "top": {"before", "after"}}], "loss",
/// "embedding", "layers": [{"kl": [T], "rows": [T], "attention": [H][T]}]}. Numbers have 7 digits.
nlohmann::ordered_json to_json(const LookDifference& difference, const Tokenizer* tokenizer);
/// A page as that of a look. `title`, `before` and `after` are text.
std::string to_html(const LookDifference& difference, const Tokenizer* tokenizer, const std::string& title,
                    const std::string& before, const std::string& after);

}  // namespace toy

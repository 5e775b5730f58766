// Classes of texts, and the scores that models with such a head give.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toy/decode/encoder.h"

namespace toy {

/// Computes the scores of texts with a model that has a ScoreHead. A text has the same bits by itself and among others.
class Scorer {
 public:
  /// Device and model must outlive it. Throws Error{bad_input} for a model without such a head, and when memory will
  /// not suffice.
  Scorer(Device& device, const Model& model, const EncoderOptions& options = {});
  /// [N,n] of N texts, row by row. `second`: see Encoder::encode().
  std::vector<float> scores(std::span<const std::vector<int32_t>> texts, std::span<const size_t> second = {});

 private:
  const Model& model_;
  const EmbedOptions pooling_;  // of the state that the head gets
  Encoder encoder_;
  std::unique_ptr<Session> head_;
  bool fixed_ = false;  // the head is computed for a fixed number of rows, some of which are zeros
};

/// A class of a text, and how likely it is.
struct TextClass {
  std::string name;
  double probability = 0;
};

/// Throws Error{bad_input} for a model that does not classify texts.
void require_text_classifier(const ModelSpec& spec);

/// The classes of each text, the likeliest first. Of a text that is too long, the end is cut.
///
///     const Model model = load_model("out/mood/model.gguf", *device);
///     const std::string mood = classify_texts(*device, model, {"what a lovely film"})[0][0].name;
std::vector<std::vector<TextClass>> classify_texts(Device& device, const Model& model,
                                                   const std::vector<std::string>& texts);
/// Of one text whose classes have these scores.
std::vector<TextClass> classes_of_scores(const ModelSpec& spec, std::span<const float> scores);

}  // namespace toy

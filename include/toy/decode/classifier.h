// Classes of pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "toy/image/image_set.h"
#include "toy/runtime/session.h"

namespace toy {

struct Model;

/// Computes the logits of a model's classes. A picture has the same bits by itself and among others.
///
///     const Model model = load_model("out/digits/model.gguf", *device);
///     const std::vector<float> logits = ImageClassifier(*device, model).logits(read_picture("7.png"));
class ImageClassifier {
 public:
  /// Device and model must outlive it. `together`: pictures in one batch. Throws Error{bad_input} for a model that does
  /// not classify pictures, and when memory will not suffice.
  ImageClassifier(Device& device, const Model& model, int64_t together = 32);
  /// [K] of one picture of any size, which is cut to a square as fitted() does.
  std::vector<float> logits(const Picture& picture);
  /// Those of all pictures of a set in the model's size and channels, in their order: take(i, logits [K]).
  void each(const ImageSet& set, const std::function<void(int64_t i, std::span<const float> logits)>& take);

 private:
  std::vector<float> run(std::vector<float> rows);
  const Model& model_;
  int64_t together_;
  std::unique_ptr<Session> session_;
};

}  // namespace toy

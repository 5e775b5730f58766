// Pictures as rows of places.
#pragma once

#include <memory>

#include "toy/data/corpus.h"
#include "toy/image/augment.h"
#include "toy/models/spec.h"
#include "toy/train/data.h"
#include "train/tell.h"

namespace toy {

/// The pictures of a run: those that it learns and those that it is validated on.
struct RunImages {
  ImageSet training, validation;
  std::vector<float> mean, std;  ///< of each channel over the training pictures, as VisionSpec has them
  VisionSpec vision = {};        ///< of the model, which says how pictures become rows; set before rows are made
};

/// Reads them. Throws as read_images(), and where a class has pictures in the validation alone.
RunImages read_run_images(const ImageOptions& options, const DataOptions& data, size_t memory, Teller& tell);
/// By which they are known again: their classes, pixels and labels, and how they are augmented.
nlohmann::ordered_json config_of(const RunImages& images, const ImageOptions& options);

/// Training pictures in a random order, augmented. `images` must outlive it.
std::unique_ptr<Rows> make_image_rows(const RunImages& images, const AugmentOptions& augment, uint64_t seed);
/// Validation pictures as they are. `images` must outlive it.
std::unique_ptr<ValidationRows> make_image_validation(const RunImages& images);

}  // namespace toy

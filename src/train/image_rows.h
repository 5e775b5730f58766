// Pictures as rows of places.
#pragma once

#include <memory>

#include "toy/image/augment.h"
#include "toy/models/spec.h"
#include "toy/train/data.h"
#include "train/dataset.h"

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

/// Them as the data of a run: training pictures in a random order, augmented, and validation pictures as they are.
/// Throws as read_run_images().
std::unique_ptr<Dataset> make_image_dataset(const DataOptions& options, size_t memory, Teller& tell);

}  // namespace toy

// Random changes of training pictures that keep their class.
#pragma once

#include <cstdint>
#include <vector>

#include "toy/base/options.h"
#include "toy/image/image_set.h"

namespace toy {

/// What is drawn for each picture, each time that it is learned. See docs/images.md.
struct AugmentOptions {
  int64_t crop = -1;         ///< shifts by up to so many pixels, with black beyond the edge; -1: an eighth of the size
  double flip = -1;          ///< probability of a mirrored picture; -1: 0.5 for colour, 0 for grey
  double rotate = 0;         ///< by up to so many degrees
  double zoom = 0;           ///< by up to this fraction, larger or smaller, each side by itself
  double shear = 0;          ///< by up to this
  int64_t rand_augment = 0;  ///< so many changes of a list (Cubuk et al. 2019)
  double magnitude = 9;      ///< of those, 0 to 10
  double erase = 0;          ///< probability of a rectangle of noise (Zhong et al. 2017)
  double mixup =
      0;  ///< alpha: another picture is added with a share of Beta(alpha, alpha) (Zhang et al. 2017); 0: none
  double cutmix = 0;             ///< the same with a rectangle of it (Yun et al. 2019); with both, one of them is drawn
  double label_smoothing = 0.1;  ///< of the class's share, so much is divided among all classes

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Augmentation";
    f({"crop", "Shift pictures by up to N pixels; -1 takes an eighth of their size", from_to(-1, 4096), k}, o.crop);
    f({"flip", "Probability of a mirrored picture; -1 takes 0.5 for colour, 0 for grey", from_to(-1, 1), k}, o.flip);
    f({"rotate", "Rotate by up to so many degrees", from_to(0, 180), k}, o.rotate);
    f({"zoom", "Stretch width and height by up to this fraction, either way", from_to(0, 0.9), k}, o.zoom);
    f({"shear", "Shear by up to this fraction", from_to(0, 1), k}, o.shear);
    f({"rand_augment", "Changes of RandAugment's list for each picture", from_to(0, 10), k}, o.rand_augment);
    f({"magnitude", "How strong those are", from_to(0, 10), k}, o.magnitude);
    f({"erase", "Probability of a rectangle of noise", from_to(0, 1), k}, o.erase);
    f({"mixup", "Add other pictures: alpha of their shares' distribution; 0 adds none", from_to(0, 2), k}, o.mixup);
    f({"cutmix", "The same with a rectangle of another picture", from_to(0, 2), k}, o.cutmix);
    f({"label_smoothing", "Share of the target that all classes have in common", from_to_below(0, 1), k},
      o.label_smoothing);
  }
};

/// A picture as a step sees it.
struct AugmentedPicture {
  std::vector<float> values;  ///< [size,size,channels], 0 to 255
  std::vector<float> shares;  ///< [K] of each class; their sum is 1
};

/// Picture `i` of the set in epoch `epoch`. The same for the same seed, epoch and picture, whatever else is drawn.
AugmentedPicture augmented(const ImageSet& set, int64_t i, int64_t epoch, const AugmentOptions& options, uint64_t seed);

}  // namespace toy

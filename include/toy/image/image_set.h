// Pictures of classes, decoded: what a classifier learns from and is measured on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "toy/image/picture.h"

namespace toy {

/// N square pictures of one size and number of channels, each of a class.
struct ImageSet {
  int64_t size = 0, channels = 0;
  std::vector<std::string> classes = {};  ///< of labels, in their order
  std::vector<int32_t> labels = {};       ///< [N]
  std::vector<uint8_t> values = {};       ///< [N,size,size,channels]
  std::vector<std::string> names = {};    ///< [N] where each comes from: a path, or "FILE, picture 17"
  int64_t left_out = 0;                   ///< files of a folder that are no pictures by their names
  std::string first_left_out = {};        ///< one of them
  int64_t count() const { return int64_t(labels.size()); }
  int64_t values_of_one() const { return size * size * channels; }
  /// Values [size,size,channels] of picture i.
  std::span<const uint8_t> picture(int64_t i) const {
    return std::span(values).subspan(size_t(i * values_of_one()), size_t(values_of_one()));
  }
  /// Appends one.
  void add(std::span<const uint8_t> picture, int32_t label, std::string name);
  /// Without its pictures.
  ImageSet empty() const { return {size, channels, classes, {}, {}, {}, 0}; }
};

/// What to read.
struct ImageSource {
  std::string path;
  /// Of a set that says which pictures are for a test: these or the others. What does not say has one part, which is
  /// either.
  enum Part { train, test } part = train;
  int64_t size = 0;      ///< pictures become squares of this side; 0: as the set has them, see read_images()
  int64_t channels = 0;  ///< 1 or 3; 0: as the set has them
  size_t memory = 0;     ///< bytes that the process may hold; 0: any
};

/// Reads a folder with a subfolder of pictures for each class (maybe inside `train` and `test`, or `val`), a folder of
/// CIFAR-10 or CIFAR-100 in binary form, or a folder of IDX files as MNIST has them. Classes are in the order of their
/// names, or as the set numbers them. With size 0, files of pictures become as large as the shorter side of the first,
/// at most 224; with channels 0 they are grey where all are. Throws Error{bad_input} naming the file for what cannot
/// be read (parse_picture()), labels out of range, and a set without pictures.
ImageSet read_images(const ImageSource& source);

/// Every label must be of a class that `training` has pictures of: throws naming the class and the first picture of
/// `other` otherwise. Labels of `other` become those of `training`, by the names of the classes.
void require_known_classes(const ImageSet& training, ImageSet& other);
/// The same where a model says what classes there are.
void use_classes(const std::vector<std::string>& classes, const std::string& model, ImageSet& set);

/// Takes about this fraction of the pictures out of the set, the same ones every time, and returns them.
ImageSet hold_out(ImageSet& set, double fraction);

/// @{ Parsers of files of many pictures, for read_images(). `name` begins their errors. They append to `set`.

/// Records of a class (of CIFAR-100: a coarse and a fine one) and 32 x 32 values of red, then green, then blue.
void parse_cifar(std::span<const std::byte> bytes, const std::string& name, bool has_coarse, ImageSet& set);
/// IDX: u8 [N,rows,columns], and the labels, u8 [N].
void parse_idx(std::span<const std::byte> pictures, const std::string& pictures_name, std::span<const std::byte> labels,
               const std::string& labels_name, ImageSet& set);
/// @}

}  // namespace toy

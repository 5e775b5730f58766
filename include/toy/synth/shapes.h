// Drawn pictures whose class is known exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toy/image/picture.h"

namespace toy {

/// What is drawn.
struct ShapeOptions {
  int64_t images = 4000, test = 1000, size = 32;
  uint64_t seed = 0;
};

/// The kinds of shapes, sorted.
const std::vector<std::string>& shape_names();
/// Picture `i` of a stream, of kind i modulo their number: its place, size, angle, colours and noise follow from seed,
/// stream and i alone.
Picture draw_shape(int64_t i, int64_t size, uint64_t seed, const std::string& stream);
/// Writes PPM files into folder/train/KIND and folder/test/KIND. Throws Error{bad_input} where the folder is there and
/// not empty.
void write_shapes(const ShapeOptions& options, const std::string& folder);

}  // namespace toy

// Decoders of other libraries.
#pragma once

#include "toy/image/picture.h"

namespace toy {

/// Throws Error{bad_input} as parse_picture() does for dimensions that no picture has, or more than `bytes` can hold
/// where one byte holds at most `pixels_a_byte`.
void check_dimensions(const std::string& name, uint64_t width, uint64_t height, size_t bytes, uint64_t pixels_a_byte);
Picture parse_png(std::span<const std::byte> bytes, const std::string& name);
Picture parse_jpeg(std::span<const std::byte> bytes, const std::string& name);
/// What EXIF data say of how to turn a JPEG file: 1 to 8; 1 where they say nothing or are damaged.
int exif_orientation(std::span<const std::byte> bytes);
/// Turned and mirrored so that it is upright.
Picture upright(const Picture& picture, int orientation);

}  // namespace toy

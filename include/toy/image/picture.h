// Pictures: PNG, JPEG and PNM files to 8-bit values and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace toy {

/// A picture: rows from the top, values of a pixel together, 8 bits each.
struct Picture {
  int64_t width = 0, height = 0;
  int64_t channels = 3;  ///< 1: grey, 3: red, green, blue
  std::vector<uint8_t> values = {};
  /// A value.
  uint8_t at(int64_t x, int64_t y, int64_t c) const { return values[size_t((y * width + x) * channels + c)]; }
};

/// No picture has more pixels.
inline constexpr int64_t kMostPixels = int64_t(64) << 20;

/// A PNG, JPEG or binary PGM or PPM file, known by its first bytes. Transparent pixels are laid on black, and JPEG is
/// turned upright as its EXIF data say. Throws Error{bad_input}, which begins with `name`, before anything is
/// allocated, for what is none of these, for 16 bits a value, an animation, CMYK, no pixels, more than kMostPixels, and
/// more pixels than the file can hold; also for one that is damaged.
Picture parse_picture(std::span<const std::byte> bytes, const std::string& name);
/// The same of a file.
Picture read_picture(const std::string& path);

/// What a PGM or PPM file has in front of its values. Throws as parse_picture(), also where values are missing.
struct PnmHeader {
  int64_t width, height, channels;
  size_t begin;  ///< of the values, bytes from the start of the file
};
/// Reads it.
PnmHeader parse_pnm_header(std::span<const std::byte> bytes, const std::string& name);
/// A binary PGM or PPM file.
std::string pnm_text(const Picture& picture);
/// Writes a PNG file.
void write_png(const std::string& path, const Picture& picture);

/// In these channels: grey becomes colour as three equal values, colour grey by Rec. 601's weights.
Picture with_channels(const Picture& picture, int64_t channels);
/// The shorter side becomes `size`, by triangles as wide as they must be so that every pixel counts (as PIL's
/// BILINEAR), then the middle size x size pixels.
Picture fitted(const Picture& picture, int64_t size);

}  // namespace toy

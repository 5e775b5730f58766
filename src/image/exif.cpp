// How a camera was held: tag 0x112 of the EXIF data in a JPEG file.
#include <algorithm>
#include <string_view>

#include "image/codecs.h"

namespace toy {
namespace {

// Numbers of a TIFF structure, in its own order of bytes; 0 beyond its end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes)
      : bytes_(bytes), little_(!bytes.empty() && bytes[0] == std::byte('I')) {}
  uint32_t number(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    uint32_t v = 0;
    for (size_t i = 0; i < size; ++i) v = v << 8 | uint32_t(bytes_[at + (little_ ? size - 1 - i : i)]);
    return v;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

int orientation_of(std::span<const std::byte> tiff) {
  constexpr uint32_t kOrientation = 0x112;
  constexpr size_t kEntry = 12;
  const Tiff t(tiff);
  const size_t list = t.number(4, 4);
  const uint32_t entries = t.number(list, 2);
  for (uint32_t i = 0; i < entries; ++i)
    if (const size_t at = list + 2 + size_t(i) * kEntry; t.number(at, 2) == kOrientation) {
      const uint32_t v = t.number(at + 8, 2);
      return v >= 1 && v <= 8 ? int(v) : 1;
    }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> bytes) {
  constexpr std::string_view kName("Exif\0\0", 6);
  for (size_t at = 2; at + 4 <= bytes.size() && bytes[at] == std::byte(0xff);) {
    const auto kind = uint8_t(bytes[at + 1]);
    const size_t length = size_t(bytes[at + 2]) << 8 | size_t(bytes[at + 3]);
    if (kind == 0xda || length < 2 || bytes.size() - at - 2 < length) return 1;  // 0xda: pixels
    const auto segment = bytes.subspan(at + 4, length - 2);
    const auto same = [](char c, std::byte b) { return std::byte(c) == b; };
    if (kind == 0xe1 && segment.size() > kName.size() && std::equal(kName.begin(), kName.end(), segment.begin(), same))
      return orientation_of(segment.subspan(kName.size()));
    at += 2 + length;
  }
  return 1;
}

// From 5 on rows and columns change places; then mirrored, then upside down.
Picture upright(const Picture& p, int orientation) {
  if (orientation == 1) return p;
  const bool swapped = orientation >= 5;
  const bool right = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool down = orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Picture out{swapped ? p.height : p.width, swapped ? p.width : p.height, p.channels};
  out.values.reserve(p.values.size());
  for (int64_t y = 0; y < out.height; ++y)
    for (int64_t x = 0; x < out.width; ++x) {
      const int64_t u = right ? out.width - 1 - x : x, v = down ? out.height - 1 - y : y;
      for (int64_t c = 0; c < p.channels; ++c) out.values.push_back(swapped ? p.at(v, u, c) : p.at(u, v, c));
    }
  return out;
}

}  // namespace toy

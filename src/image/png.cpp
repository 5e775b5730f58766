// PNG by libpng's simplified interface, which reads every kind of file into one form.
#include <png.h>

#include <algorithm>
#include <cstring>

#include "image/codecs.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr uint64_t kDeflate = 1032;  // bytes that one byte of a deflated stream can stand for, at most

uint32_t big_endian(std::span<const std::byte> bytes, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | uint32_t(bytes[at + i]);
  return v;
}

// Does a chunk of this kind come before the pixels?
bool has_chunk(std::span<const std::byte> bytes, const char* kind) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, kind, checksum
  for (size_t at = kSignature; bytes.size() - at >= kAround;) {
    if (std::memcmp(&bytes[at + 4], kind, 4) == 0) return true;
    if (std::memcmp(&bytes[at + 4], "IDAT", 4) == 0) return false;
    const uint64_t next = uint64_t(at) + kAround + big_endian(bytes, at);
    if (next > bytes.size()) return false;
    at = size_t(next);
  }
  return false;
}

struct Reading {
  png_image image{};
  Reading() { image.version = PNG_IMAGE_VERSION; }
  ~Reading() { png_image_free(&image); }
};

}  // namespace

Picture parse_png(std::span<const std::byte> bytes, const std::string& name) {
  constexpr size_t kWidth = 16, kHeight = 20, kBits = 24;  // of the first chunk, IHDR
  check(bytes.size() > kBits && std::memcmp(&bytes[12], "IHDR", 4) == 0, "{}: the PNG file is cut or damaged", name);
  // Pixels of one bit are eight a byte.
  check_dimensions(name, big_endian(bytes, kWidth), big_endian(bytes, kHeight), bytes.size(), kDeflate * 8);
  check(bytes[kBits] != std::byte(16), "{}: it has 16 bits a value; convert it to 8 bits", name);
  check(!has_chunk(bytes, "acTL"), "{}: it is an animation; give pictures that stand still", name);
  Reading r;
  if (!png_image_begin_read_from_memory(&r.image, bytes.data(), bytes.size()))
    fail("{}: the PNG file is damaged: {}", name, r.image.message);
  Picture p{int64_t(r.image.width), int64_t(r.image.height), r.image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1};
  r.image.format = p.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  p.values.resize(PNG_IMAGE_SIZE(r.image));
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&r.image, &black, p.values.data(), 0, nullptr) || r.image.warning_or_error)
    fail("{}: the PNG file is damaged: {}", name, r.image.message);
  return p;
}

void write_png(const std::string& path, const Picture& p) {
  Reading w;
  w.image.width = png_uint_32(p.width), w.image.height = png_uint_32(p.height);
  w.image.format = p.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  bool good = png_image_write_to_memory(&w.image, nullptr, &size, 0, p.values.data(), 0, nullptr);
  std::vector<std::byte> bytes(size);
  good = good && png_image_write_to_memory(&w.image, bytes.data(), &size, 0, p.values.data(), 0, nullptr);
  if (!good) fail_internal("{}: cannot be written as PNG: {}", path, w.image.message);
  AtomicFile file(path);
  file.write(std::span<const std::byte>(bytes).first(size));
  file.commit();
}

}  // namespace toy

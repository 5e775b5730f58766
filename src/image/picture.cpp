#include "toy/image/picture.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "image/codecs.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr size_t kMostBytes = size_t(1) << 30;  // of a file

bool begins(std::span<const std::byte> bytes, std::string_view with) {
  return bytes.size() >= with.size() &&
         std::equal(with.begin(), with.end(), bytes.begin(), [](char c, std::byte b) { return std::byte(c) == b; });
}

// The words of a header: numbers between white space, and comments to the end of a line.
class Words {
 public:
  Words(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  uint64_t number() {
    constexpr uint64_t kMost = uint64_t(1) << 40;
    skip();
    check(at_ < bytes_.size() && is_digit(byte()), "{}: its header is damaged; a number is missing", name_);
    uint64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(byte()); ++at_) value = std::min(kMost, value * 10 + uint64_t(byte() - '0'));
    return value;
  }
  // Of the values, after one white space.
  size_t end() {
    check(at_ < bytes_.size() && is_space(byte()), "{}: its header is damaged; there is no space before the values",
          name_);
    return at_ + 1;
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  char byte() const { return char(bytes_[at_]); }
  void skip() {
    while (at_ < bytes_.size() && (is_space(byte()) || byte() == '#'))
      if (byte() == '#')
        while (at_ < bytes_.size() && byte() != '\n') ++at_;
      else
        ++at_;
  }
  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 2;
};

Picture parse_pnm(std::span<const std::byte> bytes, const std::string& name) {
  const PnmHeader h = parse_pnm_header(bytes, name);
  Picture p{h.width, h.height, h.channels};
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data()) + h.begin;
  p.values.assign(from, from + h.width * h.height * h.channels);
  return p;
}

}  // namespace

void check_dimensions(const std::string& name, uint64_t width, uint64_t height, size_t bytes, uint64_t pixels_a_byte) {
  check(width > 0 && height > 0, "{}: the picture is {} x {}, so it has no pixels", name, width, height);
  check(width <= uint64_t(kMostPixels) && height <= uint64_t(kMostPixels) / width,
        "{}: the picture is {} x {}; at most {} million pixels are read", name, width, height, kMostPixels >> 20);
  check(width * height / pixels_a_byte <= bytes,
        "{}: the header says {} x {} pixels, and the {} bytes of the file cannot hold as many; it is cut off, so copy "
        "it again",
        name, width, height, bytes);
}

PnmHeader parse_pnm_header(std::span<const std::byte> bytes, const std::string& name) {
  check(begins(bytes, "P5") || begins(bytes, "P6"), "{}: not a binary PGM or PPM file", name);
  const int64_t channels = begins(bytes, "P6") ? 3 : 1;
  Words words(bytes, name);
  const uint64_t width = words.number(), height = words.number(), most = words.number();
  check(most <= 65535 && most > 0, "{}: its largest value is {}, expected 255", name, most);
  check(most == 255, "{}: its largest value is {}, {}; convert it to 8 bits", name, most,
        most > 255 ? "that of 16-bit pictures, and 255 is read" : "and 255 is read");
  check_dimensions(name, width, height, bytes.size(), 1);
  const size_t begin = words.end(), needed = size_t(width) * size_t(height) * size_t(channels);
  check(bytes.size() - begin >= needed,
        "{}: the header says {} x {} pixels, {} bytes, and {} follow; it is cut off, so copy it again", name, width,
        height, needed, bytes.size() - begin);
  return {int64_t(width), int64_t(height), channels, begin};
}

Picture parse_picture(std::span<const std::byte> bytes, const std::string& name) {
  if (begins(bytes, "\x89PNG\r\n\x1a\n")) return parse_png(bytes, name);
  if (begins(bytes, "\xff\xd8\xff")) return parse_jpeg(bytes, name);
  if (begins(bytes, "P5") || begins(bytes, "P6")) return parse_pnm(bytes, name);
  check(!bytes.empty(), "{}: the file is empty", name);
  std::string_view kind;
  if (begins(bytes, "GIF8")) kind = "a GIF file";
  if (begins(bytes, "RIFF")) kind = "a WebP file";
  if (begins(bytes, "BM")) kind = "a BMP file";
  if (begins(bytes, "P1") || begins(bytes, "P2") || begins(bytes, "P3")) kind = "a PNM file written as text";
  fail("{}: {}; convert it, as pictures are PNG, JPEG, or binary PGM and PPM files", name,
       kind.empty() ? "not a picture that toy reads" : kind);
}

Picture read_picture(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  check(bool(file), "{}: there is no such picture, or it cannot be read", path);
  const std::streamoff size = file.tellg();
  check(size >= 0 && size_t(size) <= kMostBytes, "{}: it is a folder, or larger than any picture", path);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), size);
  check(bool(file), "{}: it cannot be read", path);
  return parse_picture(bytes, path);
}

std::string pnm_text(const Picture& p) {
  std::string text = fmt::format("P{}\n{} {}\n255\n", p.channels == 3 ? 6 : 5, p.width, p.height);
  text.append(reinterpret_cast<const char*>(p.values.data()), p.values.size());
  return text;
}

Picture with_channels(const Picture& p, int64_t channels) {
  if (p.channels == channels) return p;
  Picture out{p.width, p.height, channels};
  out.values.reserve(size_t(p.width * p.height * channels));
  for (int64_t i = 0; i < p.width * p.height; ++i) {
    const uint8_t* from = &p.values[size_t(i * p.channels)];
    if (channels == 3) {
      out.values.insert(out.values.end(), 3, from[0]);
    } else {  // in integers, as PIL: the same on every machine
      const uint32_t grey = 19595u * from[0] + 38470u * from[1] + 7471u * from[2] + 0x8000u;
      out.values.push_back(uint8_t(grey >> 16));
    }
  }
  return out;
}

namespace {

// For each of `to` places: where its sum begins among `from`, and the weights, which sum up to about 2^22: in whole
// numbers, as in Pillow, whose pixels are then the same.
struct Sums {
  static constexpr int64_t kOne = int64_t(1) << 22;
  std::vector<int64_t> first;
  std::vector<std::vector<int64_t>> weights;
  Sums(int64_t from, int64_t to) {
    const double scale = double(from) / double(to), support = std::max(1.0, scale);
    for (int64_t i = 0; i < to; ++i) {
      const double center = (double(i) + 0.5) * scale;
      const auto begin = std::max<int64_t>(0, int64_t(center - support + 0.5)),
                 end = std::min<int64_t>(from, int64_t(center + support + 0.5));
      std::vector<double> w;
      double sum = 0;
      for (int64_t j = begin; j < end; ++j) {
        w.push_back(std::max(0.0, 1 - std::fabs(double(j) + 0.5 - center) / support));
        sum += w.back();
      }
      first.push_back(begin);
      std::vector<int64_t>& whole = weights.emplace_back();
      for (const double x : w) whole.push_back(int64_t(0.5 + x / sum * double(kOne)));
    }
  }
};

uint8_t rounded(int64_t sum) { return uint8_t(std::clamp<int64_t>((sum + Sums::kOne / 2) / Sums::kOne, 0, 255)); }

// Rows first, then columns; 8 bits in between, as PIL.
Picture resized(const Picture& p, int64_t width, int64_t height) {
  const Sums across(p.width, width), down(p.height, height);
  Picture flat{width, p.height, p.channels}, out{width, height, p.channels};
  flat.values.resize(size_t(width * p.height * p.channels));
  out.values.resize(size_t(width * height * p.channels));
  for (int64_t y = 0; y < p.height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < p.channels; ++c) {
        int64_t sum = 0, at = across.first[size_t(x)];
        for (const int64_t w : across.weights[size_t(x)]) sum += w * p.at(at++, y, c);
        flat.values[size_t((y * width + x) * p.channels + c)] = rounded(sum);
      }
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < p.channels; ++c) {
        int64_t sum = 0, at = down.first[size_t(y)];
        for (const int64_t w : down.weights[size_t(y)]) sum += w * flat.at(x, at++, c);
        out.values[size_t((y * width + x) * p.channels + c)] = rounded(sum);
      }
  return out;
}

}  // namespace

Picture fitted(const Picture& p, int64_t size) {
  if (p.width == size && p.height == size) return p;
  const int64_t shorter = std::min(p.width, p.height);
  const auto side = [&](int64_t n) { return n == shorter ? size : std::max(size, n * size / shorter); };
  const int64_t width = side(p.width), height = side(p.height);
  check(width <= kMostPixels / height, "a picture of {} x {} pixels is too long to be resized to {}", p.width, p.height,
        size);
  const Picture all = width == p.width && height == p.height ? p : resized(p, width, height);
  Picture out{size, size, p.channels};
  const int64_t left = (width - size) / 2, top = (height - size) / 2;
  for (int64_t y = 0; y < size; ++y) {
    const auto row = all.values.begin() + ((top + y) * width + left) * p.channels;
    out.values.insert(out.values.end(), row, row + size * p.channels);
  }
  return out;
}

}  // namespace toy

#include "cli/train/contact_sheet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::cli {
namespace {

constexpr int64_t kColumns = 8, kMostRows = 100, kGap = 2;
constexpr int64_t kLeastSide = 64;  // small pictures are drawn larger
constexpr uint8_t kWhite = 255;

// Pixels of a picture's side on the page, for each of its own.
int64_t scale_of(int64_t size) { return std::max<int64_t>(1, kLeastSide / size); }

void check_page(int64_t size, int64_t rows) {
  const int64_t cell = size * scale_of(size) + kGap;
  check((kColumns * cell + kGap) * (rows * cell + kGap) <= kMostPixels,
        "augment: {} rows of pictures of {} pixels are too large; use fewer --rows, or a smaller --image-size", rows,
        size);
}

// A white page with room for cells of a set's pictures, each pixel a square of `scale` pixels.
class Page {
 public:
  Page(const ImageSet& set, int64_t rows) : set_(set), scale_(scale_of(set.size)), cell_(set.size * scale_ + kGap) {
    check_page(set.size, rows);
    picture_.width = kColumns * cell_ + kGap, picture_.height = rows * cell_ + kGap;
    picture_.values.assign(size_t(picture_.width * picture_.height * 3), kWhite);
  }
  // values: [size,size,channels], 0 to 255.
  void draw(int64_t row, int64_t column, const std::vector<float>& values) {
    for (int64_t y = 0; y < set_.size * scale_; ++y)
      for (int64_t x = 0; x < set_.size * scale_; ++x) {
        const float* from = values.data() + (y / scale_ * set_.size + x / scale_) * set_.channels;
        uint8_t* to =
            picture_.values.data() + ((row * cell_ + kGap + y) * picture_.width + column * cell_ + kGap + x) * 3;
        for (int64_t c = 0; c < 3; ++c)
          to[c] = uint8_t(std::lround(std::clamp(from[set_.channels == 3 ? c : 0], 0.0f, 255.0f)));
      }
  }
  const Picture& picture() const { return picture_; }

 private:
  const ImageSet& set_;
  int64_t scale_, cell_;
  Picture picture_;
};

// "cat", or where pictures are mixed "cat 0.71, dog 0.29".
std::string classes_of(const ImageSet& set, const AugmentedPicture& picture, double smoothing) {
  std::string text;
  const auto floor = float(smoothing / double(set.classes.size()));
  for (size_t k = 0; k < picture.shares.size(); ++k)
    if (picture.shares[k] > floor * 1.5f + 1e-6f)
      text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", printable(set.classes[k]), picture.shares[k]);
  return text;
}

}  // namespace

std::string draw_contact_sheet(const ContactSheet& s) {
  refuse_replacing("--augment", s.out, [](std::string_view begin) { return begin.starts_with("\x89PNG"); });
  check(s.rows <= kMostRows, "--rows is {}; a sheet of pictures has at most {}", s.rows, kMostRows);
  if (s.size > 0) check_page(s.size, std::max<int64_t>(1, s.rows));
  const ImageSet set = read_images({s.data, ImageSource::train, s.size, 0, 0});
  const int64_t rows = std::min({set.count(), s.rows > 0 ? s.rows : kMostRows, kMostRows});
  if (s.rows == 0 && rows < set.count())
    to_stderr(fmt::format("toy: {} of {} pictures are drawn, the most that a sheet has\n", rows, set.count()));
  Page page(set, rows);
  std::string text;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t i = row * set.count() / rows;
    const auto own = set.picture(i);
    page.draw(row, 0, std::vector<float>(own.begin(), own.end()));
    text +=
        fmt::format("{}: {}", printable(set.names[size_t(i)]), printable(set.classes[size_t(set.labels[size_t(i)])]));
    for (int64_t epoch = 0; epoch < kColumns - 1; ++epoch) {
      const AugmentedPicture picture = augmented(set, i, epoch, s.augment, s.seed);
      page.draw(row, epoch + 1, picture.values);
      if (s.augment.mixup > 0 || s.augment.cutmix > 0)
        text += fmt::format(" | {}", classes_of(set, picture, s.augment.label_smoothing));
    }
    text += '\n';
  }
  write_png(s.out, page.picture());
  return text;
}

}  // namespace toy::cli

// Pictures: what is read, and what is refused before anything large is allocated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "image/codecs.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "toy/image/augment.h"
#include "toy/image/class_scores.h"
#include "toy/image/image_set.h"

namespace toy::image_test {
namespace {

using testing::expect_contains;
using testing::message_of;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string big(uint32_t v) { return {char(v >> 24), char(v >> 16), char(v >> 8), char(v)}; }

Picture some(int64_t width, int64_t height, int64_t channels) {
  Picture p{width, height, channels};
  for (int64_t i = 0; i < width * height * channels; ++i) p.values.push_back(uint8_t(i * 37 + i / 7));
  return p;
}

TEST(Pictures, PnmAndPngKeepEveryValue) {
  const testing::Folder folder;
  for (const int64_t channels : {1, 3}) {
    const Picture p = some(7, 5, channels);
    EXPECT_EQ(parse_picture(bytes(pnm_text(p)), "p").values, p.values);
    write_png(folder.path("p.png"), p);
    const Picture q = read_picture(folder.path("p.png"));
    EXPECT_EQ(q.width, 7);
    EXPECT_EQ(q.channels, channels);
    EXPECT_EQ(q.values, p.values);
  }
  const Picture commented = parse_picture(bytes("P5 # a comment\n#another\n2 1\n255\nab"), "p");
  EXPECT_EQ(commented.values, (std::vector<uint8_t>{'a', 'b'}));
}

std::string refusal(const std::string& text) {
  const std::string m = message_of([&] { parse_picture(bytes(text), "cat.png"); });
  EXPECT_TRUE(m.starts_with("cat.png: ")) << m;
  return m;
}

TEST(Pictures, WhatIsRefusedBeforeAnythingIsAllocated) {
  expect_contains(refusal("P6 100000 100000 255\n"), "at most 64 million pixels");
  expect_contains(refusal("P6 8000 8000 255\n"), "cannot hold");
  expect_contains(refusal("P6 2 2 255\nabc"), "it is cut off, so copy it again");
  expect_contains(refusal("P6 0 5 255\n"), "no pixels");
  expect_contains(refusal("P5 1 1 65535\nab"), "16-bit");
  expect_contains(refusal("P5 1 1 1\na"), "255 is read");
  expect_contains(refusal("P5 x"), "a number is missing");
  expect_contains(refusal("P5 99999999999999999999999 1 255\n"), "at most 64 million");
  expect_contains(refusal("P3 1 1 255 1 2 3"), "written as text");
  expect_contains(refusal("GIF89a"), "GIF");
  expect_contains(refusal(""), "empty");
  expect_contains(refusal("hello"), "not a picture");
  const auto png = [](uint32_t width, uint32_t height, char bits, const std::string& rest) {
    return "\x89PNG\r\n\x1a\n" + big(13) + "IHDR" + big(width) + big(height) + bits + std::string("\x02\0\0\0", 4) +
           big(0) + rest;
  };
  expect_contains(refusal(png(8000, 8000, 8, "")), "cannot hold");
  expect_contains(refusal(png(1 << 30, 1 << 30, 8, "")), "at most");
  expect_contains(refusal(png(0, 4, 8, "")), "no pixels");
  expect_contains(refusal(png(4, 4, 16, "")), "16 bits");
  expect_contains(refusal(png(4, 4, 8, big(8) + "acTL" + std::string(12, '\0'))), "animation");
  expect_contains(refusal(png(4, 4, 8, "")), "damaged");
  expect_contains(refusal("\xff\xd8\xff\xe0junk"), "damaged");
}

TEST(Pictures, ACutPngIsRefused) {
  const testing::Folder folder;
  write_png(folder.path("p.png"), some(40, 40, 3));
  const std::string all = testing::slurp(folder.path("p.png"));
  for (const size_t length : {all.size() / 2, all.size() - 20, size_t(40)})
    expect_contains(refusal(all.substr(0, length)), "damaged");
  std::string changed = all;
  changed[all.size() / 2] = char(changed[all.size() / 2] ^ 0x55);
  expect_contains(refusal(changed), "damaged");
}

TEST(Pictures, ExifOrientations) {
  const Picture p{3, 2, 1, {1, 2, 3, 4, 5, 6}};
  const std::vector<std::vector<uint8_t>> want{{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                               {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                               {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int o = 1; o <= 8; ++o) {
    EXPECT_EQ(upright(p, o).values, want[size_t(o - 1)]) << o;
    EXPECT_EQ(upright(p, o).width, o < 5 ? 3 : 2);
    const std::string tiff =
        std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01", 18) + char(0) + char(o) + "\0\0";
    const std::string exif = std::string("Exif\0\0", 6) + tiff, n{char(0), char(exif.size() + 2)};
    EXPECT_EQ(exif_orientation(bytes("\xff\xd8\xff\xe1" + n + exif)), o);
  }
  EXPECT_EQ(exif_orientation(bytes("\xff\xd8\xff\xe1")), 1);
}

// Pillow 13 says so; sums in f64 would give 54 and 61 where it has 55 and 62.
TEST(Fitted, HasThePixelsOfPillow) {
  const Picture p{5, 5, 1, {129, 167, 40, 110, 226, 222, 80, 161, 21, 207, 68, 87, 247,
                            139, 223, 50, 194, 255, 19,  62, 37,  65, 79,  18, 229}};
  EXPECT_EQ(fitted(p, 4).values,
            (std::vector<uint8_t>{151, 114, 81, 188, 139, 131, 123, 178, 81, 192, 145, 114, 55, 108, 62, 145}));
}

// Half the size: the triangle's sum over 4 pixels of a row of equal pairs.
TEST(Pictures, ResizingAndCropping) {
  const Picture flat{64, 32, 3, std::vector<uint8_t>(64 * 32 * 3, 77)};
  const Picture small = fitted(flat, 16);
  EXPECT_EQ(small.values, std::vector<uint8_t>(16 * 16 * 3, 77));
  const Picture row{4, 1, 1, {0, 0, 80, 80}};
  EXPECT_EQ(fitted(row, 1).values, std::vector<uint8_t>{0});  // the middle of 4 is its second pixel
  // 4 x 4 to 2 x 2: weights 3/7, 3/7, 1/7 at the edge.
  Picture p{4, 4, 1};
  for (int i = 0; i < 16; ++i) p.values.push_back(uint8_t(i % 4 * 70));
  const double left = (3 * 0 + 3 * 70 + 140) / 7.0, right = 210 - left;
  EXPECT_EQ(fitted(p, 2).values, (std::vector<uint8_t>{uint8_t(std::lround(left)), uint8_t(std::lround(right)),
                                                       uint8_t(std::lround(left)), uint8_t(std::lround(right))}));
}

TEST(ImageSets, Cifar) {
  ImageSet set{32, 3, {"a", "b"}};
  std::string record(1 + 3072, '\0');
  record[0] = 1, record[1] = 10, record[1 + 1024] = 20, record[1 + 2048] = 30;
  parse_cifar(bytes(record + record), "f", false, set);
  EXPECT_EQ(set.count(), 2);
  EXPECT_EQ(set.labels[0], 1);
  EXPECT_EQ((std::vector<uint8_t>(set.values.begin(), set.values.begin() + 4)), (std::vector<uint8_t>{10, 20, 30, 0}));
  expect_contains(message_of([&] { parse_cifar(bytes(record.substr(1)), "f", false, set); }), "f: it has 3072 bytes");
  record[0] = 2;
  expect_contains(message_of([&] { parse_cifar(bytes(record), "f", false, set); }), "label is 2");
  ImageSet fine{32, 3, {"a", "b", "c"}};
  parse_cifar(bytes(std::string("\x07\x02", 2) + std::string(3072, 'x')), "f", true, fine);
  EXPECT_EQ(fine.labels[0], 2);
}

TEST(ImageSets, Idx) {
  const std::string pictures = big(0x803) + big(2) + big(2) + big(2) + "abcdefgh",
                    labels = big(0x801) + big(2) + "\x03\x09";
  ImageSet set{0, 1, std::vector<std::string>(10)};
  parse_idx(bytes(pictures), "p", bytes(labels), "l", set);
  EXPECT_EQ(set.labels, (std::vector<int32_t>{3, 9}));
  EXPECT_EQ(set.picture(1)[0], 'e');
  const auto refused = [&](const std::string& p, const std::string& l) {
    ImageSet none{0, 1, std::vector<std::string>(10)};
    return message_of([&] { parse_idx(bytes(p), "p", bytes(l), "l", none); });
  };
  expect_contains(refused(pictures.substr(0, 20), labels), "p: the header says 2 pictures");
  expect_contains(refused(big(0x803) + big(0xffffffff) + big(4096) + big(4096), labels), "cut or damaged");
  expect_contains(refused(big(0x803) + big(1) + big(0) + big(0), labels), "no pixels");
  expect_contains(refused(pictures, labels.substr(0, 9)), "l: ");
  expect_contains(refused(pictures, big(0x801) + big(2) + "\x03\x0a"), "label 2 is 10");
  expect_contains(refused("x", labels), "p: not an IDX file");
}

TEST(ImageSets, FoldersOfClasses) {
  const testing::Folder folder;
  folder.write("train/cat/1.pgm", pnm_text(some(8, 8, 1)));
  folder.write("train/cat/2.PPM", pnm_text(some(12, 9, 3)));
  folder.write("train/cat/notes.txt", "x");
  folder.write("train/ant/1.pgm", pnm_text(some(8, 8, 1)));
  folder.write("test/cat/1.pgm", pnm_text(some(8, 8, 1)));
  const ImageSet set = read_images({.path = folder.path()});
  EXPECT_EQ(set.classes, (std::vector<std::string>{"ant", "cat"}));
  EXPECT_EQ(set.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(set.channels, 3);  // not all are grey
  EXPECT_EQ(set.size, 8);
  EXPECT_EQ(set.left_out, 1);
  EXPECT_EQ(int64_t(set.values.size()), 3 * 8 * 8 * 3);
  ImageSet test = read_images({.path = folder.path(), .part = ImageSource::test, .size = 8, .channels = 3});
  EXPECT_EQ(test.labels, std::vector<int32_t>{0});
  require_known_classes(set, test);
  EXPECT_EQ(test.labels, std::vector<int32_t>{1});
  folder.write("test/bat/1.pgm", pnm_text(some(8, 8, 1)));
  ImageSet other = read_images({.path = folder.path(), .part = ImageSource::test});
  expect_contains(message_of([&] { require_known_classes(set, other); }), "bat/1.pgm: it is of the class 'bat'");
  folder.write("train/ant/2.png", "\x89PNG\r\n\x1a\nxx");
  expect_contains(message_of([&] { read_images({.path = folder.path()}); }), "train/ant/2.png: ");
}

ImageSet numbered(int64_t n, int64_t classes) {
  ImageSet set{8, 1, std::vector<std::string>(size_t(classes), "")};
  for (int64_t i = 0; i < n; ++i) set.add(std::vector<uint8_t>(64, uint8_t(i + 1)), int32_t(i % classes), "");
  return set;
}

TEST(ImageSets, HoldingOutTakesTheSameEveryTime) {
  ImageSet a = numbered(100, 4), b = numbered(100, 4);
  const ImageSet held = hold_out(a, 0.2);
  EXPECT_EQ(held.count(), 20);
  EXPECT_EQ(a.count(), 80);
  EXPECT_EQ(hold_out(b, 0.2).values, held.values);
  std::vector<int> seen(101);
  for (const ImageSet* s : {&held, static_cast<const ImageSet*>(&a)})
    for (int64_t i = 0; i < s->count(); ++i) ++seen[s->picture(i)[0]];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 100);
}

TEST(Augment, NothingMeansThePictureItself) {
  const ImageSet set = numbered(3, 2);
  const AugmentedPicture p = augmented(set, 1, 5, {.crop = 0, .flip = 0, .label_smoothing = 0}, 7);
  EXPECT_EQ(p.values, std::vector<float>(64, 2.0f));
  EXPECT_EQ(p.shares, (std::vector<float>{0, 1}));
}

TEST(Augment, MovesAndMirrorsAreExact) {
  ImageSet set{4, 1, {"a", "b"}};
  std::vector<uint8_t> picture;
  for (int i = 0; i < 16; ++i) picture.push_back(uint8_t(i + 1));
  set.add(picture, 0, "");
  std::vector<std::vector<float>> wanted;
  for (const bool mirrored : {false, true})
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx) {
        std::vector<float> v(16);
        for (int y = 0; y < 4; ++y)
          for (int x = 0; x < 4; ++x) {
            const int sx = (mirrored ? 3 - (x + dx) : x + dx), sy = y + dy;
            if (sx >= 0 && sx < 4 && sy >= 0 && sy < 4) v[size_t(4 * y + x)] = float(4 * sy + sx + 1);
          }
        wanted.push_back(v);
      }
  std::vector<bool> seen(wanted.size());
  for (int64_t epoch = 0; epoch < 400; ++epoch) {
    const auto v = augmented(set, 0, epoch, {.crop = 1, .flip = 0.5}, 3).values;
    const auto it = std::find(wanted.begin(), wanted.end(), v);
    ASSERT_NE(it, wanted.end());
    seen[size_t(it - wanted.begin())] = true;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 18);
}

TEST(Augment, SharesSumUpToOneAndFollowTheMix) {
  const ImageSet set = numbered(50, 5);
  for (const auto& [mixup, cutmix] : {std::pair(0.8, 0.0), std::pair(0.0, 1.0), std::pair(0.8, 1.0)}) {
    double own = 0;
    for (int64_t epoch = 0; epoch < 200; ++epoch) {
      const AugmentOptions o{.crop = 0, .flip = 0, .mixup = mixup, .cutmix = cutmix, .label_smoothing = 0};
      const AugmentedPicture p = augmented(set, 0, epoch, o, 1);
      double sum = 0, mean = 0;
      for (const float q : p.shares) sum += double(q);
      EXPECT_NEAR(sum, 1, 1e-6);
      own += double(p.shares[0]);
      // All values of a picture are equal, so its mean says how much of it there is.
      for (const float v : p.values) mean += double(v) / 64;
      if (p.shares[0] < 1 && mean > 1.001) {
        EXPECT_LT(p.shares[0], 1.0f);
      }
    }
    EXPECT_GT(own / 200, 0.4);
    EXPECT_LT(own / 200, 0.8);  // the partner has the same class in a fifth of the cases
  }
  const AugmentedPicture p = augmented(set, 3, 0, {.label_smoothing = 0.1}, 1);
  EXPECT_FLOAT_EQ(p.shares[3], 0.92f);
  EXPECT_FLOAT_EQ(p.shares[0], 0.02f);
}

TEST(Augment, DrawsFollowFromSeedEpochAndPictureAlone) {
  const ImageSet set = numbered(10, 2);
  const AugmentOptions o{.rotate = 10, .zoom = 0.1, .shear = 0.1, .rand_augment = 2, .erase = 0.5, .mixup = 0.5};
  const auto a = augmented(set, 4, 2, o, 1);
  augmented(set, 5, 2, o, 1);
  EXPECT_EQ(augmented(set, 4, 2, o, 1).values, a.values);
  EXPECT_NE(augmented(set, 4, 3, o, 1).values, a.values);
  EXPECT_NE(augmented(set, 4, 2, o, 2).values, a.values);
  for (const float v : a.values) EXPECT_TRUE(v >= 0 && v <= 255) << v;
}

TEST(ClassScores, RanksAndLosses) {
  const std::vector<float> z{1, 3, 3, -2};
  EXPECT_EQ(class_rank(z, 1), 0);
  EXPECT_EQ(class_rank(z, 2), 1);  // equal ones in their order
  EXPECT_EQ(class_rank(z, 3), 3);
  EXPECT_EQ(classes_in_order(z), (std::vector<int32_t>{1, 2, 0, 3}));
  const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(-2);
  EXPECT_NEAR(class_nll(z, 0), std::log(sum) - 1, 1e-12);
  EXPECT_NEAR(class_probabilities(z)[3], std::exp(-2) / sum, 1e-12);
}

}  // namespace
}  // namespace toy::image_test

#include "toy/base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "toy/base/error.h"

namespace toy::checksum_test {
namespace {

// From xxHash's own tests: its sanity buffer and published digests.
TEST(Xxh64, KnownAnswers) {
  EXPECT_EQ(xxh64(""), 0xef46db3751d8e999u);
  EXPECT_EQ(xxh64("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(xxh64("abc"), 0x44bc2cf5ad770999u);
  std::string sanity;
  uint64_t generator = 2654435761u;
  for (int i = 0; i < 222; ++i, generator *= 11400714785074694797u) sanity += char(generator >> 56);
  EXPECT_EQ(xxh64(sanity.substr(0, 1)), 0xe934a84adb052768u);
  EXPECT_EQ(xxh64(sanity.substr(0, 4)), 0x9136a0dca57457eeu);
  EXPECT_EQ(xxh64(sanity.substr(0, 14)), 0x8282dcc4994e35c8u);
  EXPECT_EQ(xxh64(sanity.substr(0, 222)), 0xb641ae8cb691c174u);
}

TEST(Xxh64, PiecesGiveTheSame) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += char(i * 37);
  for (size_t length = 0; length < text.size(); ++length)
    for (const size_t piece : {1u, 7u, 31u, 32u, 33u, 64u}) {
      Xxh64 x;
      for (size_t at = 0; at < length; at += piece)
        x.update(std::as_bytes(std::span(text).subspan(at, std::min(piece, length - at))));
      EXPECT_EQ(x.digest(), xxh64(text.substr(0, length))) << length << " in pieces of " << piece;
    }
}

TEST(Xxh64, EveryBitCounts) {
  std::string text(77, 'x');
  std::set<uint64_t> seen{xxh64(text)};
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    text[bit / 8] = char(text[bit / 8] ^ (1 << bit % 8));
    EXPECT_TRUE(seen.insert(xxh64(text)).second) << bit;
    text[bit / 8] = char(text[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Xxh64, FilesThatCannotBeRead) {
  uint64_t bytes = 0;
  EXPECT_THROW(xxh64_of_file("/nowhere/at/all", bytes), Error);
  EXPECT_THROW(xxh64_of_file("/tmp", bytes), Error);
}

}  // namespace
}  // namespace toy::checksum_test

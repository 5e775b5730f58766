// Every byte of UTF-8: characters, cut-off characters, and the stream that never ends inside one.
#include "toy/base/utf8.h"

#include <gtest/gtest.h>

#include "text_testing.h"

namespace toy::utf8_test {
namespace {

using namespace testing;

// A second opinion: decodes the textbook way and then forbids what the standard forbids.
bool is_character(std::string_view s) {
  if (s.empty()) return false;
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(s[i])); };
  const uint32_t b = byte(0);
  const size_t n = b < 0x80 ? 1 : b >> 5 == 6 ? 2 : b >> 4 == 14 ? 3 : b >> 3 == 30 ? 4 : 0;
  if (n != s.size()) return false;
  uint32_t c = n == 1 ? b : b & (0x7Fu >> n);
  for (size_t i = 1; i < n; ++i) {
    if (byte(i) >> 6 != 2) return false;
    c = c << 6 | (byte(i) & 63);
  }
  const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  return c >= least[n] && c < 0x110000 && !(c >= 0xD800 && c < 0xE000);
}

TEST(Utf8, EveryCodePoint) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = utf8_encode(c);
    ASSERT_TRUE(is_character(text)) << c;
    ASSERT_EQ(utf8_character(text), text.size()) << c;
    ASSERT_EQ(utf8_character(text + "\x80"), text.size()) << c;
    for (size_t n = 1; n < text.size(); ++n) {
      const std::string_view part = std::string_view(text).substr(0, n);
      ASSERT_EQ(utf8_character(part), 0u) << c;
      ASSERT_TRUE(utf8_cut_off(part)) << c;
    }
    ASSERT_FALSE(utf8_cut_off(text)) << c;
  }
}

TEST(Utf8, EveryThreeBytes) {
  for (uint32_t bits = 0; bits < 0x1000000; ++bits) {
    const char bytes[3] = {char(bits >> 16), char(bits >> 8), char(bits)};
    const std::string_view s(bytes, 3);
    size_t expected = 0;
    for (size_t n = 1; n <= 3; ++n) {
      if (is_character(s.substr(0, n))) expected = n;
    }
    ASSERT_EQ(utf8_character(s), expected) << std::hex << bits;
  }
}

TEST(Utf8, WholeTexts) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("h\xC3\xA9 \xF0\x9F\xA6\x99"));
  EXPECT_FALSE(is_utf8("h\xC3"));
  EXPECT_FALSE(is_utf8("\xC0\x80"));          // overlong
  EXPECT_FALSE(is_utf8("\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));  // above U+10FFFF
}

TEST(Utf8Stream, HoldsBackEverySplit) {
  const std::string text =
      "a\xC3\xA9"
      "b\xE2\x82\xAC\xF0\x9F\xA6\x99z";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      Utf8Stream stream;
      const std::string first = stream.push(text.substr(0, i));
      const std::string second = stream.push(text.substr(i, j - i));
      const std::string third = stream.push(text.substr(j));
      EXPECT_TRUE(is_utf8(first)) << i;
      EXPECT_TRUE(is_utf8(second)) << i << " " << j;
      EXPECT_EQ(first + second + third, text);
      EXPECT_EQ(stream.finish(), "");
    }
  }
}

TEST(Utf8Stream, ShowsACharacterAsSoonAsItIsWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0"), "");
  EXPECT_EQ(stream.push("\x9F\xA6"), "");
  EXPECT_EQ(stream.push("\x99"), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(stream.push("x\xE2"), "x");
  EXPECT_EQ(stream.finish(), "\xE2");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, PassesWhatCanNeverBecomeUtf8) {
  for (const char* bytes : {"\x80", "\xFF", "\xC0", "\xC1", "\xF5", "\xE0\x80", "\xED\xA0", "\xF0\x8F", "\xF4\x90",
                            "\xE2\x28", "\xC3\xC0"}) {
    Utf8Stream stream;
    EXPECT_EQ(stream.push(bytes), bytes);
    EXPECT_EQ(stream.finish(), "");
  }
  Utf8Stream stream;  // the first byte turns out to be wrong, the second may still become something
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("\xC3"), "\xE2\x82");
  EXPECT_EQ(stream.push("\xA9"), "\xC3\xA9");
}

TEST(Utf8, WhatIsNoneIsReplaced) {
  EXPECT_EQ(valid_utf8("a\xC3\xA9\n"), "a\xC3\xA9\n");
  EXPECT_EQ(valid_utf8("x\xFF\xE2\x82y"), "x\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDy");
  EXPECT_EQ(markup("<a href='x'>&\"\n\x01\xFF\xEF\xBF\xBF"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\n?\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(one_line("n\nm\x1b[32m\x7f"), "n?m?[32m?");
  EXPECT_EQ(one_line("\xC2\x9B\xC2\xA0\xC3\xA9\xFF"), "?\xC2\xA0\xC3\xA9\xEF\xBF\xBD");  // CSI in one character
  EXPECT_EQ(printable("a\tb\n\r\x1b[2J\xC2\x9B"), "a\tb\n??[2J?");
  RandomText random(2);
  for (int round = 0; round < 500; ++round) {
    const std::string bytes = random.bytes(40), text = random.unicode(10);
    ASSERT_TRUE(is_utf8(valid_utf8(bytes)) && is_utf8(one_line(bytes)));
    ASSERT_EQ(valid_utf8(text), text);
  }
}

TEST(Utf8Stream, LosesNothingOfRandomBytes) {
  RandomText random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(40) : random.unicode(10);
    Utf8Stream stream;
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random.below(4);
      shown += stream.push(std::string_view(text).substr(at, n));
      at += n;
      ASSERT_LE(std::min(text.size(), at) - shown.size(), 3u);
      ASSERT_TRUE(round % 2 == 0 || is_utf8(shown));
    }
    ASSERT_EQ(shown + stream.finish(), text);
  }
}

TEST(Utf8, ColumnsOfATerminal) {
  const std::pair<const char*, size_t> texts[] = {
      {"", 0},       {"abc", 3},        {"\u00e9", 1},     {"e\u0301", 1},      {"\u65e5\u672c\u8a9e", 6},
      {"\ud55c", 2}, {"\U0001F600", 2}, {"\U0001F680", 2}, {"\u05d0\u05b8", 1}, {"\u2581\u2588", 2}};
  for (const auto& [text, columns] : texts) {
    EXPECT_EQ(terminal_columns(text), columns) << text;
    EXPECT_EQ(first_columns(text, columns), text);
  }
  EXPECT_EQ(terminal_columns("a\xFF"), 2u);  // shown as U+FFFD
  EXPECT_EQ(first_columns("\u65e5\u672c", 3), "\u65e5");
  EXPECT_EQ(first_columns("e\u0301x", 1), "e\u0301");
  EXPECT_EQ(first_columns("abc", 0), "");
}

}  // namespace
}  // namespace toy::utf8_test

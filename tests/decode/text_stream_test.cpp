// Text as it is shown while it is generated: stop strings, whole characters.
#include "toy/decode/text_stream.h"

#include <gtest/gtest.h>

#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy::text_stream_test {
namespace {

// What a filter lets through when the text comes in these pieces.
std::string filtered(const std::vector<std::string>& pieces, const std::vector<std::string>& stops) {
  StopFilter f(stops);
  std::string out;
  for (const std::string& p : pieces) out += f.push(p);
  return f.stopped() ? out : out + f.finish();
}

TEST(StopFilter, CutsBeforeAStopString) {
  EXPECT_EQ(filtered({"one END two"}, {"END"}), "one ");
  EXPECT_EQ(filtered({"one E", "N", "D two"}, {"END"}), "one ");
  EXPECT_EQ(filtered({"one EN", "EEND"}, {"END"}), "one ENE");
  EXPECT_EQ(filtered({"one EN"}, {"END"}), "one EN");
  EXPECT_EQ(filtered({"END"}, {"END"}), "");
  EXPECT_EQ(filtered({"aaab"}, {"aab"}), "a");
  EXPECT_EQ(filtered({"text"}, {}), "text");
}

TEST(StopFilter, TheFirstCompleteOneCountsAndThenTheLongest) {
  EXPECT_EQ(filtered({"xabcd"}, {"abcd", "bc"}), "xa");
  EXPECT_EQ(filtered({"xabc"}, {"bc", "abc"}), "x");
}

TEST(StopFilter, HoldsBackWhatMayBecomeAStopString) {
  StopFilter f({"\n\nQ", "stop"});
  EXPECT_EQ(f.push("a\n"), "a");
  EXPECT_EQ(f.push("b"), "\nb");
  EXPECT_EQ(f.push("\n"), "");
  EXPECT_EQ(f.push("\n"), "");
  EXPECT_EQ(f.push("\n"), "\n");
  EXPECT_EQ(f.push("st"), "\n\n");
  EXPECT_EQ(f.push("o"), "");
  EXPECT_EQ(f.finish(), "sto");
  EXPECT_FALSE(f.stopped());
}

TEST(StopFilter, EmptyIsRefused) { EXPECT_THROW(StopFilter({"a", ""}), Error); }

// Against a search of the whole text, for random texts of two letters cut at random.
TEST(StopFilter, AgreesWithASearchOfTheWholeText) {
  const Philox random(1, "stop");
  uint64_t at = 0;
  const auto below = [&](uint64_t n) { return random.below(at++, n); };
  const auto word = [&](uint64_t n) {
    std::string s;
    for (uint64_t i = 0; i < n; ++i) s += char('a' + below(2));
    return s;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::string text = word(below(40));
    std::vector<std::string> stops, pieces;
    for (uint64_t i = 0, n = below(4); i < n; ++i) stops.push_back(word(1 + below(8)));
    for (size_t i = 0; i < text.size(); i += pieces.back().size()) pieces.push_back(text.substr(i, 1 + below(5)));
    std::string expected = text;
    size_t first_end = std::string::npos;
    for (const std::string& s : stops)
      if (const size_t found = text.find(s); found != std::string::npos)
        if (found + s.size() < first_end || (found + s.size() == first_end && found < expected.size()))
          first_end = found + s.size(), expected = text.substr(0, found);
    EXPECT_EQ(filtered(pieces, stops), expected) << text;
  }
}

TEST(TextStream, NeverSplitsACharacter) {
  const auto bytes = make_byte_tokenizer();
  const std::string text = "a\u00e9\u20ac!";
  TextStream s(*bytes, std::vector<int32_t>{'x'}, {"\u20ac"});
  EXPECT_EQ(s.push('a'), "a");
  EXPECT_EQ(s.push(0xc3), "");
  EXPECT_EQ(s.push(0xa9), "\u00e9");
  EXPECT_EQ(s.push(0xe2), "");  // the beginning of the stop string, and of a character
  EXPECT_EQ(s.push(0x82), "");
  EXPECT_FALSE(s.stopped());
  EXPECT_EQ(s.push(0xac), "");
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.finish(), "");
}

TEST(TextStream, AStopStringInsideACharacterTakesTheWholeCharacter) {
  const auto bytes = make_byte_tokenizer();
  TextStream s(*bytes, {}, {"\xac"});
  std::string out;
  for (const int id : {0x61, 0xe2, 0x82, 0xac}) out += s.push(id);
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(out + s.finish(), "a");
}

TEST(TextStream, WithoutAStopTheRestComesAtTheEnd) {
  const auto bytes = make_byte_tokenizer();
  TextStream s(*bytes, {}, {"abc"});
  EXPECT_EQ(s.push('a'), "");
  EXPECT_EQ(s.push('b'), "");
  EXPECT_EQ(s.finish(), "ab");
  TextStream cut(*bytes, {});
  EXPECT_EQ(cut.push(0xe2), "");
  EXPECT_EQ(cut.finish(), "\xe2");
}

}  // namespace
}  // namespace toy::text_stream_test

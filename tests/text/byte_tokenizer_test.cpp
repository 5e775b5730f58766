#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "text_testing.h"

namespace toy::byte_tokenizer_test {
namespace {

using namespace testing;

void expect_byte_tokenizer(const Tokenizer& tokenizer) {
  EXPECT_EQ(tokenizer.kind(), "bytes");
  EXPECT_EQ(tokenizer.vocab_size(), 256);
  EXPECT_FALSE(tokenizer.bos().has_value());
  EXPECT_FALSE(tokenizer.eos().has_value());
  EXPECT_FALSE(tokenizer.adds_bos());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += char(byte);
  const std::vector<int32_t> ids = tokenizer.encode(all);
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ids[size_t(byte)], byte);
    EXPECT_EQ(tokenizer.token_bytes(byte), std::string(1, char(byte)));
  }
  EXPECT_EQ(tokenizer.decode(ids), all);
}

TEST(ByteTokenizer, EveryByteIsItsOwnToken) { expect_byte_tokenizer(*make_byte_tokenizer()); }

TEST(ByteTokenizer, RandomBytesComeBack) {
  const auto tokenizer = make_byte_tokenizer();
  RandomText random(2);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = random.bytes(100);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_TRUE(tokenizer->encode("").empty());
  EXPECT_EQ(tokenizer->decode({}), "");
}

TEST(ByteTokenizer, RefusesIdsOutside) {
  const auto tokenizer = make_byte_tokenizer();
  const std::vector<int32_t> ids = {65, 256};
  expect_contains(message_of([&] { tokenizer->decode(ids); }), "token id 256 is outside the vocabulary of 256");
  expect_contains(message_of([&] { tokenizer->token_bytes(-1); }), "token id -1 is outside");
}

TEST(ByteTokenizer, SavesWhatLlamaCppReads) {
  const TemporaryGguf file([](gguf::Writer& writer) { make_byte_tokenizer()->save(writer); });
  const gguf::File in = file.open();
  EXPECT_EQ(in.get_string("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(in.get_string("tokenizer.ggml.pre"),
            "qwen2");  // "gpt-2" would drop spaces; see byte_tokenizer.cpp
  EXPECT_TRUE(in.get_strings("tokenizer.ggml.merges").empty());
  EXPECT_EQ(in.get_i32s("tokenizer.ggml.token_type"), std::vector<int32_t>(256, 1));
  EXPECT_FALSE(in.get_bool("tokenizer.ggml.add_bos_token", true));
  EXPECT_FALSE(in.get_bool("tokenizer.ggml.add_eos_token", true));
  EXPECT_EQ(in.get_u32("tokenizer.ggml.eos_token_id"), 255u);
  const std::vector<std::string>& tokens = in.get_strings("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 256u);
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), 256u);
  // Known answers from GPT-2's own table: NUL, line break, space, letter, DEL, no-break space, soft hyphen,
  // 255.
  EXPECT_EQ(tokens[0], "\xC4\x80");
  EXPECT_EQ(tokens['\n'], "\xC4\x8A");
  EXPECT_EQ(tokens[' '], "\xC4\xA0");
  EXPECT_EQ(tokens['A'], "A");
  EXPECT_EQ(tokens[0x7F], "\xC4\xA1");
  EXPECT_EQ(tokens[0xA0], "\xC5\x82");
  EXPECT_EQ(tokens[0xAD], "\xC5\x83");
  EXPECT_EQ(tokens[0xFF], "\xC3\xBF");
}

TEST(ByteTokenizer, IsRecognizedInAFile) {
  const auto loaded = saved_and_loaded(*make_byte_tokenizer());
  ASSERT_NE(loaded, nullptr);
  expect_byte_tokenizer(*loaded);
}

}  // namespace
}  // namespace toy::byte_tokenizer_test

// Training: what comes out, that it loses nothing, and that it is the same every time.
#include <gtest/gtest.h>

#include "text/spm/spm.h"
#include "text_testing.h"

namespace toy::spm_train_test {
namespace {

using namespace testing;

std::shared_ptr<const Tokenizer> trained(std::string_view text, int32_t vocab_size) {
  SpmTrainOptions options;
  options.vocab_size = vocab_size;
  return train_spm(text, options);
}

std::vector<std::string> all_tokens(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) tokens.push_back(tokenizer.token_bytes(id));
  return tokens;
}

TEST(SpmTrain, GivesAVocabularyOfTheSizeAsked) {
  const auto tokenizer = trained(training_text(4, 50000), 500);
  EXPECT_EQ(tokenizer->vocab_size(), 500);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_FALSE(tokenizer->adds_bos());
  for (int32_t byte = 0; byte < 256; ++byte) EXPECT_EQ(tokenizer->token_bytes(3 + byte), std::string(1, char(byte)));
  const std::string text = training_text(4, 50000);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 2);
}

TEST(SpmTrain, EveryTextComesBack) {
  const auto tokenizer = trained(training_text(5, 50000), 500);
  RandomText random(6);
  for (int round = 0; round < 4000; ++round) {
    std::string text = round % 2 == 0 ? random.bytes(60) : random.unicode(30);
    if (round % 3 == 0) text += "\xE2\x96\x81 " + text;  // the space symbol itself
    const std::vector<int32_t> ids = tokenizer->encode(text);
    ASSERT_EQ(tokenizer->decode(ids), text);
    std::string joined;
    for (const int32_t id : ids) joined += tokenizer->token_bytes(id);
    ASSERT_EQ(joined, text);
  }
}

TEST(SpmTrain, IsDeterministic) {
  const std::string text = training_text(7, 60000);
  const auto first = trained(text, 600);
  SpmTrainOptions options;
  options.vocab_size = 600;
  options.threads = 3;
  const auto second = train_spm(text, options);
  EXPECT_EQ(all_tokens(*first), all_tokens(*second));
  EXPECT_EQ(first->encode(text), second->encode(text));
}

TEST(SpmTrain, SurvivesSavingAndLoading) {
  const std::string text = training_text(8, 40000);
  const auto tokenizer = trained(text, 400);
  const auto loaded = saved_and_loaded(*tokenizer);
  EXPECT_EQ(all_tokens(*loaded), all_tokens(*tokenizer));
  EXPECT_EQ(loaded->adds_bos(), tokenizer->adds_bos());
  EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
  RandomText random(9);
  for (int round = 0; round < 500; ++round) {
    const std::string sample = random.unicode(20);
    ASSERT_EQ(loaded->encode(sample), tokenizer->encode(sample));
  }
}

TEST(SpmTrain, AddsBosIfAsked) {
  SpmTrainOptions options;
  options.vocab_size = 320;
  options.add_bos = true;
  const auto tokenizer = saved_and_loaded(*train_spm(training_text(10, 20000), options));
  EXPECT_TRUE(tokenizer->adds_bos());
  std::vector<int32_t> ids = tokenizer->encode("a prompt");
  EXPECT_EQ(encode_prompt(*make_byte_tokenizer(), "ab"), (std::vector<int32_t>{'a', 'b'}));
  ids.insert(ids.begin(), tokenizer->bos().value());
  EXPECT_EQ(encode_prompt(*tokenizer, "a prompt"), ids);
}

TEST(SpmTrain, LineBreaksAndTabsAreBytes) {
  const auto tokenizer = trained(training_text(11, 20000) + "\ta\ta\n\n\ta", 320);
  EXPECT_EQ(tokenizer->encode("\n\t\n"), (std::vector<int32_t>{3 + '\n', 3 + '\t', 3 + '\n'}));
}

TEST(SpmTrain, TakesATextWithoutLineBreaks) {
  std::string text = training_text(12, 200000);
  std::replace(text.begin(), text.end(), '\n', ' ');
  EXPECT_EQ(trained(text, 500)->vocab_size(), 500);
}

TEST(SpmTrain, TakesOneEndlessWord) {
  std::string text;
  RandomText random(13);
  while (text.size() < 200000) text += char('a' + random.below(1 + random.below(26)));
  const auto tokenizer = trained(text, 400);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(SpmTrain, TakesBrokenUtf8AndReservedCharacters) {
  RandomText random(14);
  std::string text = training_text(14, 20000);
  for (size_t at = 0; at < text.size(); at += 50) text[at] = char(random.below(256));
  for (const char* reserved : {"\xE2\x96\x81", "\xE2\x96\x85", "\xEF\xBF\xBD", "<s>", "</s>", "<unk>", "<0x41>"}) {
    for (int i = 0; i < 200; ++i) text += reserved;
  }
  text += std::string(100, '\0');
  const auto tokenizer = trained(text, 400);
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

// More different characters than places: the rare ones are left to the bytes.
TEST(SpmTrain, TakesManyDifferentCharacters) {
  std::string text = training_text(15, 20000);
  for (uint32_t c = 0x4E00; c < 0x5E00; ++c) text += utf8_encode(c);
  const auto tokenizer = trained(text, 400);
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->encode("\xE4\xBA\x80").size(), 3u);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(SpmTrain, SaysHowMuchATinyTextGives) {
  const std::string tiny = message_of([] { trained("the cat sat on the mat", 512); });
  expect_contains(tiny, "spm:512: the text is too small: it gives ");
  expect_contains(message_of([] { trained("", 512); }), "there is no text to train the tokenizer on");
  expect_contains(message_of([] { trained("\n\n\t\xFF", 512); }), "there is no text to train the tokenizer on");
  expect_contains(message_of([] { trained("text", 299); }), "must be within 300 and 1000000");
  expect_contains(message_of([] { train_spm("text", {.vocab_size = 512, .threads = 0}); }), "threads is 0");
}

TEST(SpmTrain, TheNumberNamedIsOneThatWorks) {
  const std::string text = training_text(16, 3000);
  const std::string message = message_of([&] { trained(text, 5000); });
  const size_t at = message.find("it gives ");
  ASSERT_NE(at, std::string::npos) << message;
  const int32_t given = int32_t(std::stoi(message.substr(at + 9)));
  EXPECT_EQ(trained(text, given)->vocab_size(), given);
}

// Among so many words that they are sampled, one that is most of the text counts once.
TEST(SpmTrain, MemoryOfOneLongWordAmongMany) {
  std::string words;
  for (int i = 0; i < 60000; ++i) words += std::to_string(100000 + i * 13) + " ";
  const size_t without = training_bytes("spm:1000", words);
  constexpr size_t kLong = 1'500'000, kPerCharacter = 100, kPerByte = 5;
  for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f'}) {
    const std::string word(kLong, letter);
    EXPECT_EQ(training_bytes("spm:1000", words + word + " " + word),
              without + kLong * kPerCharacter + (2 * kLong + 1) * kPerByte);
  }
}

}  // namespace
}  // namespace toy::spm_train_test

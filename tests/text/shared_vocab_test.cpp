// Real vocabularies, with the ids that llama.cpp's own tests expect.
#include <gtest/gtest.h>

#include <sstream>

#include "text_testing.h"

namespace toy {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

/// Texts of a .inp file: each is followed by "\n__ggml_vocab_test__\n".
std::vector<std::string> read_texts(const std::string& path) {
  const std::string all = slurp(path), separator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  for (size_t at = 0, end; (end = all.find(separator, at)) != std::string::npos; at = end + separator.size()) {
    texts.push_back(all.substr(at, end - at));
  }
  return texts;
}

std::vector<Ids> read_ids(const std::string& path) {
  std::istringstream lines(slurp(path));
  std::vector<Ids> all;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    all.emplace_back();
    for (int32_t id; numbers >> id;) all.back().push_back(id);
  }
  return all;
}

TEST(SharedSpm, LlamaVocabulary) {
  const std::string path = shared_path("data/vocab/ggml-vocab-llama-spm.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/vocab/ggml-vocab-llama-spm.gguf under TOY_SHARED_DIR";
  const auto tokenizer = load_tokenizer(gguf::File::open(path));
  ASSERT_EQ(tokenizer->vocab_size(), 32000);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
  const std::vector<std::string> texts = read_texts(path + ".inp");
  const std::vector<Ids> expected = read_ids(path + ".out");
  ASSERT_EQ(texts.size(), expected.size());
  ASSERT_GT(texts.size(), 40u);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer->encode(texts[i]), expected[i]) << "\"" << texts[i] << "\"";
    EXPECT_EQ(tokenizer->decode(expected[i]), texts[i]);
  }
  RandomText random(40);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(40) : random.unicode(20);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(SharedSpm, StoriesVocabulary) {
  const std::string path = shared_path("data/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/stories260K.gguf under TOY_SHARED_DIR";
  const auto tokenizer = load_tokenizer(gguf::File::open(path));
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->bos(), 1);
  // The model's greedy story, as the project that trained it published its text and ids.
  const Ids story = {403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426, 338};
  const std::string beginning = tokenizer->decode(story);
  EXPECT_EQ(beginning, "Once upon a time, there was a little girl named Lily. She");
  EXPECT_EQ(tokenizer->encode(beginning), story);
}

TEST(SharedSpm, SavedVocabularyGivesTheSameIds) {
  const std::string path = shared_path("data/vocab/ggml-vocab-llama-spm.gguf");
  const std::string plays = slurp(shared_path("data/tinyshakespeare.txt"));
  if (path.empty() || plays.empty()) {
    GTEST_SKIP() << "no data/vocab/ggml-vocab-llama-spm.gguf or data/tinyshakespeare.txt under TOY_SHARED_DIR";
  }
  const auto tokenizer = load_tokenizer(gguf::File::open(path));
  const auto again = saved_and_loaded(*tokenizer);
  const Ids ids = tokenizer->encode(plays);
  EXPECT_EQ(again->encode(plays), ids);
  EXPECT_EQ(again->decode(ids), plays);
}

}  // namespace
}  // namespace toy

// Real vocabularies, with the ids that llama.cpp's own tests expect.
#include <gtest/gtest.h>

#include <sstream>

#include "text_testing.h"

namespace toy::shared_vocab_test {
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

// Whatever is there: only these two always are.
TEST(SharedVocabularies, GiveTheIdsOfLlamaCpp) {
  const std::string folder = shared_path("data/vocab");
  if (folder.empty()) GTEST_SKIP() << "no data/vocab under TOY_SHARED_DIR";
  int seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string path = entry.path();
    if (!path.ends_with(".gguf") || !fs::exists(path + ".inp")) continue;
    SCOPED_TRACE(path);
    const OptionalTokenizer loaded = try_load_tokenizer(gguf::File::open(path));
    if (!loaded.tokenizer) {
      std::cout << loaded.warning << "\n";
      continue;
    }
    const Tokenizer& tokenizer = *loaded.tokenizer;
    const std::vector<std::string> texts = read_texts(path + ".inp");
    const std::vector<Ids> expected = read_ids(path + ".out");
    ASSERT_EQ(texts.size(), expected.size());
    ASSERT_GT(texts.size(), 40u);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i]), expected[i]) << "\"" << texts[i] << "\"";
      if (tokenizer.kind() == "wordpiece") continue;
      EXPECT_EQ(tokenizer.decode(expected[i]), texts[i]);
    }
    ++seen;
  }
  if (seen < 2) GTEST_SKIP() << "no vocabularies in " << folder;
}

TEST(SharedVocabularies, LlamaSpm) {
  const std::string path = shared_path("data/vocab/ggml-vocab-llama-spm.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/vocab/ggml-vocab-llama-spm.gguf under TOY_SHARED_DIR";
  const auto tokenizer = load_tokenizer(gguf::File::open(path));
  EXPECT_EQ(tokenizer->vocab_size(), 32000);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_EQ(tokenizer->end_of_generation(), Ids{2});
  EXPECT_TRUE(tokenizer->adds_bos());
  RandomText random(40);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(40) : random.unicode(20);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(SharedVocabularies, Gpt2) {
  const std::string path = shared_path("data/vocab/ggml-vocab-gpt-2.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/vocab/ggml-vocab-gpt-2.gguf under TOY_SHARED_DIR";
  const auto tokenizer = load_tokenizer(gguf::File::open(path));
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->bos(), 50256);
  EXPECT_EQ(tokenizer->end_of_generation(), Ids{50256});
  EXPECT_FALSE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("Hello world<|endoftext|>", {.parse_special = true}), (Ids{15496, 995, 50256}));
  RandomText random(40);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = round % 2 == 0 ? random.bytes(40) : random.unicode(20);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_EQ(saved_and_loaded(*tokenizer)->fingerprint(), tokenizer->fingerprint());
  const std::string plays = slurp(shared_path("data/tinyshakespeare.txt"));
  if (plays.empty()) return;
  const Ids ids = tokenizer->encode(plays);
  EXPECT_EQ(ids.size(), 338025u);  // as Hugging Face's tokenizers
  EXPECT_EQ(tokenizer->decode(ids), plays);
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
}  // namespace toy::shared_vocab_test

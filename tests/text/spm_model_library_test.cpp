// .model files read by us and by the sentencepiece library: the same ids, for BPE and unigram, with every kind of
// normalization.
#include <gtest/gtest.h>

#include "library_testing.h"
#include "text/spm/spm.h"

namespace toy::spm_model_library_test {
namespace {

using namespace testing;

const std::vector<std::string> kSymbols = {"<x>",   "<x><x>",          "ban",
                                           "an<x>", "\xE2\x96\x81the", "\xE2\x96\x81\xE2\x96\x81"};

struct Case {
  const char* name;
  Settings settings;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"plain", {}},
      {"prefix", {{"add_dummy_prefix", "true"}}},
      {"trimmed", {{"add_dummy_prefix", "true"}, {"remove_extra_whitespaces", "true"}}},
      {"trimmed_no_prefix", {{"remove_extra_whitespaces", "true"}}},
      {"no_bytes", {{"byte_fallback", "false"}, {"vocab_size", "400"}}},
      {"nmt_nfkc",
       {{"normalization_rule_name", "nmt_nfkc"}, {"add_dummy_prefix", "true"}, {"remove_extra_whitespaces", "true"}}},
      {"nfkc_cf", {{"normalization_rule_name", "nfkc_cf"}, {"byte_fallback", "false"}}},
      {"symbols", {{"user_defined_symbols", kSymbols[0] + "," + kSymbols[1] + "," + kSymbols[2] + "," + kSymbols[3]}}},
      {"symbols_nmt_nfkc",
       {{"normalization_rule_name", "nmt_nfkc"}, {"user_defined_symbols", kSymbols[0] + "," + kSymbols[3]}}},
  };
  return all;
}

class SpmModelAgainstLibrary : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(SpmModelAgainstLibrary, SameIds) {
  const auto [type, index] = GetParam();
  Settings settings = cases()[size_t(index)].settings;
  settings["model_type"] = type;
  const std::string model = trained_model(training_text(50 + uint32_t(index), 40000), settings);
  Library library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto ours = parsed(model);
  EXPECT_EQ(ours->kind(), type == std::string("bpe") ? "spm" : "unigram");
  ASSERT_EQ(ours->vocab_size(), library.GetPieceSize());
  EXPECT_EQ(ours->bos(), library.bos_id());
  EXPECT_EQ(ours->eos(), library.eos_id());
  const std::vector<std::string> extra = {"<x>",
                                          "<x><x><x>",
                                          "bban<x><x>ban",
                                          " ban<x ",
                                          "  the  ban ",
                                          "\xEF\xBC\xA1",
                                          "\xEF\xBD\xB6\xEF\xBE\x9E",
                                          "\xC2\xA0\xE3\x80\x80",
                                          "\xC3\x84",
                                          "\r\n\t"};
  expect_same(library, *ours, 60 + uint32_t(index), 3000, extra);
  expect_same(library, *saved_and_loaded(*ours), 80 + uint32_t(index), 300, extra);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<const char*, int>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + cases()[size_t(std::get<1>(info.param))].name;
}
INSTANTIATE_TEST_SUITE_P(Trained, SpmModelAgainstLibrary,
                         ::testing::Combine(::testing::Values("bpe", "unigram"), ::testing::Range(0, 9)), name_of);

TEST(SharedSpmModel, MistralAsTheLibrary) {
  const std::string path = shared_path("data/mistral-v1.tokenizer.model");
  const std::string plays = slurp(shared_path("data/tinyshakespeare.txt"));
  if (path.empty() || plays.empty()) GTEST_SKIP() << "no data/mistral-v1.tokenizer.model under TOY_SHARED_DIR";
  Library library;
  ASSERT_TRUE(library.Load(path).ok());
  const auto ours = load_tokenizer_file(path);
  ASSERT_EQ(ours->vocab_size(), 32000);
  EXPECT_FALSE(ours->adds_bos());
  expect_same(library, *ours, 33, 10000);
  const std::vector<int32_t> ids = ours->encode(plays);
  EXPECT_EQ(ids, library.EncodeAsIds(plays));
  EXPECT_EQ(ours->decode(ids), plays);
  EXPECT_EQ(saved_and_loaded(*ours)->encode(plays), ids);
}

// A whole book as one text: the library's ids of its parts, each of which ends with the first line break after 4096
// bytes.
TEST(SharedSpmModel, UnigramOnABook) {
  const std::string plays = slurp(shared_path("data/tinyshakespeare.txt"));
  if (plays.empty()) GTEST_SKIP() << "no data/tinyshakespeare.txt under TOY_SHARED_DIR";
  const std::string model = trained_model(plays, {{"model_type", "unigram"}, {"vocab_size", "2000"}});
  Library library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
  const auto ours = parsed(model);
  std::vector<int32_t> expected;
  for (size_t at = 0; at < plays.size();) {
    const size_t end = std::min(plays.find('\n', at + 4096), plays.size() - 1) + 1;
    const std::vector<int> part = library.EncodeAsIds(plays.substr(at, end - at));
    expected.insert(expected.end(), part.begin(), part.end());
    at = end;
  }
  EXPECT_EQ(ours->encode(plays), expected);
  EXPECT_EQ(ours->decode(expected), plays);
}

TEST(UnigramTrain, EveryTextComesBackAndLineBreaksAreTokens) {
  SpmTrainOptions options;
  options.vocab_size = 500;
  const std::string text = training_text(70, 50000);
  const auto ours = train_unigram(text, options);
  EXPECT_EQ(ours->vocab_size(), 500);
  EXPECT_EQ(ours->kind(), "unigram");
  EXPECT_EQ(ours->encode("\n\t\n"), (std::vector<int32_t>{498, 499, 498}));
  EXPECT_LT(ours->encode(text).size(), text.size() / 2);
  const auto loaded = saved_and_loaded(*ours);
  RandomText random(71);
  for (int round = 0; round < 3000; ++round) {
    std::string sample = round % 2 == 0 ? random.bytes(60) : random.unicode(30);
    if (round % 3 == 0) sample += "\xE2\x96\x81 " + sample;
    const std::vector<int32_t> ids = ours->encode(sample);
    ASSERT_EQ(ours->decode(ids), sample);
    ASSERT_EQ(loaded->encode(sample), ids);
  }
}

TEST(UnigramTrain, IsDeterministic) {
  const std::string text = training_text(72, 50000);
  const auto scores = [&](int threads) {
    const auto tokenizer = train_unigram(text, {.vocab_size = 450, .threads = threads});
    const TemporaryGguf file([&](gguf::Writer& writer) { tokenizer->save(writer); });
    return std::pair(file.open().get_f32s("tokenizer.ggml.scores"), file.open().get_strings("tokenizer.ggml.tokens"));
  };
  EXPECT_EQ(scores(1), scores(3));
}

TEST(UnigramTrain, RefusalsNameTheSpec) {
  expect_contains(message_of([] { make_tokenizer("unigram:512", "the cat sat on the mat"); }), "unigram:512: ");
  expect_contains(message_of([] { make_tokenizer("unigram:512", ""); }), "unigram:512: there is no text");
  expect_contains(message_of([] { make_tokenizer("unigram:299", "text"); }), "must be within 300 and 1000000");
  expect_contains(message_of([] { make_tokenizer("unigram:", "text"); }), "is not a number");
  expect_contains(message_of([] { make_tokenizer("unigram", "text"); }), "write unigram:512");
}

}  // namespace
}  // namespace toy::spm_model_library_test

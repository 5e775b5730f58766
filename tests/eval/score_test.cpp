// Scores of texts: against a plain computation from the decoder's logits, and against the trainer's evaluation.
#include "toy/eval/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "text/spm/spm.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/data/corpus.h"
#include "toy/train/trainer.h"

namespace toy::score_test {
namespace {

ModelSpec small_spec() {
  return testing::small_model(
      "tiny", {.vocab = 61, .d_model = 40, .context = 400, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52});
}

std::vector<int32_t> some_tokens(size_t n, const char* stream) { return testing::random_ids(n, 61, Philox(7, stream)); }

// log p of every token, each window alone and one token at a time.
std::vector<double> plain(Device& device, const Model& model, const EvalText& text, int64_t context, int64_t stride) {
  std::vector<double> result;
  for (const std::vector<int32_t>& document : text.documents) {
    std::vector<int32_t> ids = document;
    if (text.bos) ids.insert(ids.begin(), *text.bos);
    int64_t scored = 0;  // the last one that has a score
    for (int64_t begin = 0; scored + 1 < int64_t(ids.size()); begin += stride) {
      Decoder d(device, model, {.context = context});
      for (int64_t i = begin; i < begin + context && i + 1 < int64_t(ids.size()); ++i) {
        const int32_t token = text.bos && i == begin ? *text.bos : ids[size_t(i)];
        d.decode(std::vector<DecodeRow>{{0, token, true}});
        if (i + 1 <= scored) continue;
        scored = i + 1;
        const auto logits = d.logits(0);
        double sum = 0;
        for (const float l : logits) sum += std::exp(double(l) - double(logits[0]));
        result.push_back(double(logits[size_t(ids[size_t(scored)])]) - double(logits[0]) - std::log(sum));
      }
    }
  }
  return result;
}

class ScoreTest : public ::testing::Test {
 protected:
  std::vector<TokenScore> scores(const EvalText& text, const ScoreOptions& o, TextScore* total = nullptr) {
    std::vector<TokenScore> list;
    const TextScore t = score_text(*device_, model_, text, o, [&](const TokenScore& s) { list.push_back(s); });
    EXPECT_EQ(t.tokens, int64_t(list.size()));
    if (total) *total = t;
    return list;
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(small_spec(), *device_, 3, 2.0);
};

TEST_F(ScoreTest, EqualsAPlainComputation) {
  EvalText text;
  for (const size_t n : {90u, 1u, 0u, 2u, 33u, 32u, 140u})
    text.documents.push_back(some_tokens(n, ("d" + std::to_string(n)).c_str()));
  for (const bool bos : {false, true})
    for (const auto& [context, stride] : {std::pair{32, 32}, {32, 8}, {33, 1}, {400, 100}}) {
      text.bos = bos ? std::optional(5) : std::nullopt;
      const std::vector<double> expected = plain(*device_, model_, text, context, stride);
      const auto got = scores(text, {.context = context, .stride = stride});
      ASSERT_EQ(got.size(), expected.size());
      ASSERT_EQ(got.size(), bos ? 298u : 292u);
      // Logits have the same bits; the two log-sum-exps are f64 sums of 61 terms around another centre.
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].token.logprob, expected[i], 1e-12) << i;
    }
}

TEST_F(ScoreTest, TokensComeInTheOrderOfTheText) {
  EvalText text;
  for (int i = 0; i < 40; ++i) text.documents.push_back(some_tokens(size_t(i * 7 % 50), "x"));
  const auto got = scores(text, {.context = 16, .stride = 4, .top_logprobs = 3});
  size_t at = 0;
  for (size_t d = 0; d < text.documents.size(); ++d)
    for (size_t i = 1; i < text.documents[d].size(); ++i, ++at) {
      EXPECT_EQ(got[at].document, d);
      EXPECT_EQ(got[at].index, int64_t(i));
      EXPECT_EQ(got[at].token.id, text.documents[d][i]);
      ASSERT_EQ(got[at].best.size(), 3u);
      EXPECT_GE(got[at].best[0].logprob, got[at].token.logprob);
    }
  EXPECT_EQ(at, got.size());
}

TEST_F(ScoreTest, SameBitsForAnyNumberOfThreads) {
  EvalText text;
  text.documents.push_back(some_tokens(700, "t"));
  TextScore first;
  scores(text, {.context = 100, .stride = 50}, &first);
  for (const int threads : {1, 3, 8}) {
    const auto device = make_test_device(threads);
    const Model model = random_model(small_spec(), *device, 3, 2.0);
    const TextScore t = score_text(*device, model, text, {.context = 100, .stride = 50});
    EXPECT_EQ(t.nats, first.nats) << threads;
    EXPECT_EQ(t.standard_error, first.standard_error) << threads;
  }
}

// The trainer reads the same windows with the graph of the loss; its -log p are f32, here they are f64 of the same
// logits. linear_xent sums 61 exponentials and takes a logarithm: (61 + 8) roundings of a term that is at most the
// largest |logit| or log 61, for each token.
TEST_F(ScoreTest, EqualsTheTrainersEvaluation) {
  EvalText text;
  text.documents.push_back(some_tokens(500, "v"));
  Trainer trainer(*device_, model_, {.batch = 3, .tokens = 24});
  const EvalResult expected = trainer.evaluate(text.documents[0]);
  TextScore got;
  double top = 0;
  for (const TokenScore& s : scores(text, {.context = 24, .stride = 6, .top_logprobs = 61}, &got))
    top = std::max(top, s.best.front().logprob - s.best.back().logprob);
  EXPECT_EQ(got.tokens, expected.tokens);
  EXPECT_NEAR(got.nats_per_token(), expected.mean(), (61 + 8) * 0x1p-24 * std::max(top, std::log(61.0)));
}

TEST_F(ScoreTest, StandardErrorIsTheRatioEstimator) {
  EvalText text;
  for (const size_t n : {20u, 50u, 35u}) text.documents.push_back(some_tokens(n, ("e" + std::to_string(n)).c_str()));
  TextScore total;
  const auto list = scores(text, {}, &total);
  double sums[3] = {}, counts[3] = {}, nats = 0;
  for (const TokenScore& s : list) sums[s.document] -= s.token.logprob, ++counts[s.document], nats -= s.token.logprob;
  const double mean = nats / double(list.size());
  double squares = 0;
  for (int i = 0; i < 3; ++i) squares += (sums[i] - mean * counts[i]) * (sums[i] - mean * counts[i]);
  EXPECT_TRUE(total.blocks_are_documents);
  EXPECT_EQ(total.blocks, 3);
  EXPECT_NEAR(total.nats_per_token(), mean, 1e-12);
  EXPECT_NEAR(total.standard_error, std::sqrt(1.5 * squares) / double(list.size()), 1e-12);
  EXPECT_NEAR(total.perplexity(), std::exp(mean), 1e-9);
}

// Of texts drawn from a known distribution: the true mean lies within two standard errors about 95 times in 100.
TEST_F(ScoreTest, StandardErrorCoversTheTruth) {
  TextScore all;
  EvalText text;
  text.documents.push_back(some_tokens(20000, "long"));
  scores(text, {.context = 64, .stride = 64}, &all);
  int covered = 0;
  for (int i = 0; i < 60; ++i) {
    EvalText part;
    part.documents.push_back(some_tokens(1500, ("s" + std::to_string(i)).c_str()));
    TextScore t;
    scores(part, {.context = 64, .stride = 64}, &t);
    EXPECT_FALSE(t.blocks_are_documents);
    EXPECT_EQ(t.blocks, (1499 + 63) / 64);
    covered += std::abs(t.nats_per_token() - all.nats_per_token()) < 2 * t.standard_error;
  }
  EXPECT_GE(covered,
            49);  // binomial(60, 0.94), five standard deviations below its mean: 47; the tail at 49 is below 1e-3
}

TEST_F(ScoreTest, RefusesWhatCannotBeScored) {
  EvalText text;
  const auto score = [&](const ScoreOptions& o) { score_text(*device_, model_, text, o); };
  EXPECT_THROW(score({}), Error);
  text.documents = {{1}, {}, {2}};
  EXPECT_THROW(score({}), Error);
  text.documents = {{1, 2, 3}};
  EXPECT_NO_THROW(score({}));
  EXPECT_THROW(score({.context = 8, .stride = 9}), Error);
  EXPECT_THROW(score({.context = -1}), Error);
  EXPECT_THROW(score({.context = 8, .stride = -1}), Error);
  EXPECT_THROW(score({.top_logprobs = -1}), Error);
}

// A document's last token is predicted and never read: no decoder looks at it.
TEST_F(ScoreTest, IdsOutsideTheVocabularyAreNamed) {
  EvalText text;
  const auto message = [&] { return testing::error_of([&] { score_text(*device_, model_, text, {}); }); };
  text.documents = {{1, 2}, {3, 4, 61}};
  EXPECT_EQ(message(), "eval: token 2 of document 1 is 61, the vocabulary is 0 to 60");
  text.documents = {{1, -1}};
  EXPECT_EQ(message(), "eval: token 1 of document 0 is -1, the vocabulary is 0 to 60");
  text.documents = {{1, 2}};
  text.bos = 61;
  EXPECT_EQ(message(), "eval: the beginning-of-sequence token is 61, the vocabulary is 0 to 60");
}

TEST(Documents, BlankLinesSeparate) {
  EXPECT_EQ(split_documents("a\nb\n\n \t\r\nc\n"), (std::vector<std::string>{"a\nb", "c"}));
  EXPECT_EQ(split_documents("\n\na"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(split_documents("\n \n"), std::vector<std::string>{});
  EXPECT_EQ(split_documents("  x \n\ny"), (std::vector<std::string>{"  x ", "y"}));
}

TEST(Documents, BytesAreThoseOfScoredTokens) {
  const auto t = make_byte_tokenizer();
  const std::vector<std::string> documents{"abc", "", "d", "ef"};
  const EvalText text = tokenize_for_eval(*t, documents, true);
  EXPECT_FALSE(text.bos);  // bytes have none
  EXPECT_EQ(text.documents.size(), 4u);
  EXPECT_EQ(text.bytes, 3);  // b, c, f
}

// A place is a byte of a document of those that were given.
TEST(Documents, TextThatIsNotUtf8IsNamedByDocument) {
  SpmVocabulary v;
  v.tokens = {"<unk>", "a"};
  v.types = {2, 1};
  v.scores = {0, 0};
  v.unknown = 0;
  v.add_bos = v.add_space_prefix = false;
  const SpmTokenizer tokenizer(v);  // without byte tokens
  const auto message = [&](const std::vector<std::string>& documents) {
    return testing::message_of([&] { tokenize_for_eval(tokenizer, documents, true); });
  };
  EXPECT_NE(message({"aa", "a\xff"}).find("not UTF-8 at byte 1 of document 2 of 2"), std::string::npos);
  EXPECT_NE(message({"a\xff"}).find("not UTF-8 at byte 1 of the text"), std::string::npos);
}

TEST(SharedEval, BeginningOfSequenceAsTheTokenizerSays) {
  const std::string path = testing::shared_path("data/stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "no data/stories260K.gguf under TOY_SHARED_DIR";
  const auto device = make_test_device(2);
  const Model model = load_model(path, *device);
  const std::vector<std::string> documents{"Once upon a time, there was a little girl named Lily."};
  const EvalText with = tokenize_for_eval(*model.tokenizer, documents, true),
                 without = tokenize_for_eval(*model.tokenizer, documents, false);
  EXPECT_EQ(with.bos, model.tokenizer->bos());
  EXPECT_EQ(with.bytes, int64_t(documents[0].size()));
  EXPECT_LT(without.bytes, with.bytes);
  EXPECT_GT(without.bytes, with.bytes - 8);
  const TextScore score = score_text(*device, model, with, {});
  EXPECT_EQ(score.tokens, int64_t(with.documents[0].size()));
  EXPECT_LT(score.perplexity(), 3);  // the very beginning of what it writes itself
}

}  // namespace
}  // namespace toy::score_test

#include "toy/synth/ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/synth/stories.h"

namespace toy::ngram_test {
namespace {

double sum_over_bytes(const NgramModel& model, std::string_view context) {
  double sum = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const double p = model.probability(context, uint8_t(byte));
    EXPECT_GT(p, 0);
    sum += p;
  }
  return sum;
}

TEST(Ngram, SumsToOne) {
  const std::string text = write_stories({1, 50000});
  const Philox random(7, "contexts");
  for (const int order : {1, 2, 3, 5, 8}) {
    const NgramModel model = NgramModel::train(text, order);
    for (uint64_t i = 0; i < 60; ++i) {
      std::string context(random.below(10 * i, 9), ' ');
      const bool from_text = i % 2 == 0;  // the others were hardly ever seen
      if (from_text) context = text.substr(random.below(10 * i + 1, text.size() - 9), context.size());
      if (!from_text) {
        for (size_t k = 0; k < context.size(); ++k) context[k] = char(random.below(1000 + 10 * i + k, 256));
      }
      EXPECT_NEAR(sum_over_bytes(model, context), 1, 1e-12) << order << " \"" << context << '"';
    }
  }
}

TEST(Ngram, SumsToOneOnTinyTexts) {
  for (const std::string text : {"a", "ab", "aaaaaaaaaa", "abracadabra"}) {
    const NgramModel model = NgramModel::train(text);
    for (const char* context : {"", "a", "abra", "zzzz"}) EXPECT_NEAR(sum_over_bytes(model, context), 1, 1e-12);
  }
}

// "abab": by hand. Nothing to estimate discounts from at order 1 (a and b: one preceding byte each), so D =
// 1/2.
TEST(Ngram, ValuesByHand) {
  const NgramModel model = NgramModel::train("abab", 2);
  // Bigrams: ab twice, ba once. Continuation counts: a 1 (after b), b 1 (after a).
  const double p1 = 0.5 / 2 + (2 * 0.5 / 2) / 256;
  EXPECT_DOUBLE_EQ(model.probability("", 'a'), p1);
  EXPECT_DOUBLE_EQ(model.probability("", 'z'), 0.5 / 256);
  // Order 2: n1 = 1, n2 = 1, so Y = 1/3, D1 = 1 - 2 Y = 1/3, D2 = 2 - 3 Y n3 / n2 = 2, kept just below the
  // count.
  EXPECT_NEAR(model.probability("b", 'a'), (1 - 1.0 / 3) + 1.0 / 3 * p1, 1e-12);
  EXPECT_NEAR(model.probability("a", 'b'), 0.001 / 2 + 1.999 / 2 * p1, 1e-12);
}

TEST(Ngram, HigherOrdersAreBetter) {
  const std::string train = write_stories({1, 300000}), other = write_stories({2, 30000});
  double last = std::log(256.0);
  for (int order = 1; order <= 5; ++order) {
    const double nats = NgramModel::train(train, order).nats_per_byte(other);
    EXPECT_LT(nats, last) << "order " << order;
    last = nats;
  }
}

// The point of the stories: what matters is further back than four bytes.
TEST(Ngram, IsWellAboveTheFloorOfStories) {
  const std::string train = write_stories({1, 1000000}), other = write_stories({2, 50000});
  EXPECT_GT(NgramModel::train(train).nats_per_byte(other), 1.4 * score_stories(other).nats_per_byte());
}

TEST(Ngram, DefaultOrderIsFive) { EXPECT_EQ(NgramModel::train("a longer text").order(), 5); }

TEST(Ngram, RejectsBadInput) {
  EXPECT_THROW(NgramModel::train(""), Error);
  EXPECT_THROW(NgramModel::train("text", 0), Error);
  EXPECT_THROW(NgramModel::train("text", 9), Error);
  EXPECT_THROW(NgramModel::train("text").nats_per_byte(""), Error);
}

}  // namespace
}  // namespace toy::ngram_test

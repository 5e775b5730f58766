// How many tokens are proposed, and when a draft pays: what depends on no model.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "decode/speculation.h"
#include "toy/base/error.h"
#include "toy/decode/speculation.h"

namespace toy::acceptance_test {
namespace {

std::vector<int32_t> ids(std::initializer_list<int32_t> list) { return list; }

TEST(Ngrams, TheLongestEndsLatestOccurrenceIsContinued) {
  const auto next = [](const std::vector<int32_t>& text, size_t most) { return continue_by_ngrams(text, most); };
  EXPECT_EQ(next({}, 3), ids({}));
  EXPECT_EQ(next({1}, 3), ids({}));
  EXPECT_EQ(next({1, 2, 3, 4}, 3), ids({}));
  EXPECT_EQ(next({7, 2, 9, 2}, 3), ids({}));                     // one token is no n-gram
  EXPECT_EQ(next({1, 2, 3, 4, 1, 2}, 2), ids({3, 4}));           // the first pair
  EXPECT_EQ(next({1, 2, 3, 1, 2, 4, 1, 2}, 1), ids({4}));        // the latest
  EXPECT_EQ(next({9, 1, 2, 3, 1, 2, 4, 9, 1, 2}, 1), ids({3}));  // the longest
  EXPECT_EQ(next({1, 2, 3, 1, 2}, 5), ids({3, 1, 2, 3, 1}));     // what is in between repeats
  EXPECT_EQ(next({5, 5, 5}, 4), ids({5, 5, 5, 5}));
  EXPECT_EQ(next({1, 2, 3, 1, 2}, 0), ids({}));
}

TEST(Acceptance, RightProposalsBecomeLongerAndWrongOnesStop) {
  const SpeculationOptions o{.ngrams = true, .most = 12};
  AcceptanceRate good, bad;
  const size_t first = good.worth(o, 1);
  EXPECT_GT(first, 1u);
  EXPECT_LT(first, 12u);
  for (int i = 0; i < 15; ++i) good.learn(4, 4), bad.learn(4, 0);
  EXPECT_EQ(good.worth(o, 1), 12u);
  EXPECT_EQ(bad.worth(o, 1), 0u);
  // The more texts, the fewer; and none that is not nearly certain.
  EXPECT_LE(good.worth(o, 64), good.worth(o, 8));
  EXPECT_EQ(AcceptanceRate().worth(o, 32), 0u);
  // After a while it is tried again, with a few.
  for (int i = 0; i < 200; ++i) bad.learn(0, 0);
  EXPECT_GT(bad.worth(o, 1), 0u);
  // A draft that costs as much as the model never pays.
  Decoder* const some = reinterpret_cast<Decoder*>(size_t(64));
  EXPECT_EQ(good.worth({.draft = some, .draft_cost = 1}, 1), 0u);
}

// The same weights, in types of so many bytes.
TEST(Acceptance, CostsComeFromBytesAndWeights) {
  const auto pair_of = [](double model, double draft, double draft_weights) {
    SpeculationOptions o;
    o.estimate({.bytes = model, .weights = 1}, {.bytes = draft * draft_weights, .weights = draft_weights});
    return o;
  };
  constexpr double kF32 = 4, kQ8 = 34.0 / 32, kQ4 = 18.0 / 32;
  EXPECT_TRUE(pair_of(kF32, kQ8, 1).draft_proposes());
  EXPECT_TRUE(pair_of(kF32, kQ4, 1).draft_proposes());
  EXPECT_TRUE(pair_of(kQ4, kQ4, 0.07).draft_proposes());  // 0.5B for 7B
  EXPECT_TRUE(pair_of(kQ4, kQ4, 0.17).draft_proposes());  // 1B for 8B
  EXPECT_TRUE(pair_of(kQ4, kQ4, 0.3).draft_proposes());
  EXPECT_FALSE(pair_of(kQ8, kQ4, 1).draft_proposes());  // as many products, of 0.6 of the bytes
  EXPECT_FALSE(pair_of(kQ4, kQ4, 1).draft_proposes());
  EXPECT_FALSE(pair_of(kQ8, kQ8, 1).draft_proposes());
  // A row of small weights costs more, in the time of a call.
  EXPECT_GT(AcceptanceRate().worth(pair_of(kF32, kF32, 1), 1), AcceptanceRate().worth(pair_of(kQ4, kQ4, 1), 1));
  EXPECT_GT(AcceptanceRate().worth(pair_of(kQ4, kQ4, 1), 1), 0u);
  SpeculationOptions none;
  EXPECT_THROW(none.estimate({}), Error);
}

TEST(Acceptance, AShortAnswerToALongPromptIsNotDrafted) {
  const SpeculationOptions o{.draft_read = 0.05};
  EXPECT_FALSE(o.reading_pays(1000, 1, 200));  // 50 calls, for an answer that has hardly begun
  EXPECT_TRUE(o.reading_pays(1000, 50, 200));
  EXPECT_FALSE(o.reading_pays(1000, 50, 60));  // at most half of them is gained
  EXPECT_TRUE(o.reading_pays(10, 1, 5));
  EXPECT_TRUE(o.reading_pays(0, 0, 0));
}

// Proposals that are always wrong, and are tried again and again, cost little: here of a text of 300 tokens.
TEST(Acceptance, WrongProposalsAreSeldomRepeated) {
  const auto lost = [](const SpeculationOptions& o) {
    constexpr int kTokens = 300;
    AcceptanceRate rate;
    double time = 0;
    int unread = 0;  // tokens that the draft has not read
    for (int token = 0; token < kTokens; ++token) {
      const size_t n = rate.worth(o, 1);
      rate.learn(n, 0);
      time += double(n) / (o.rows_per_read + 1);
      if (o.draft && n > 0) time += double(n) * o.draft_cost + std::exchange(unread, 0) * o.draft_read;
      if (o.draft && n == 0) ++unread;
    }
    return time / kTokens;
  };
  for (const double rows : {12.0, 3.2, 1.7}) EXPECT_LT(lost({.ngrams = true, .rows_per_read = rows}), 0.025) << rows;
  SpeculationOptions draft{.draft = reinterpret_cast<Decoder*>(size_t(64))};
  for (const double bytes : {34.0 / 32, 18.0 / 32}) {  // Q8_0 and Q4_0 for F32
    draft.estimate({.bytes = 4, .weights = 1}, {.bytes = bytes, .weights = 1});
    EXPECT_LT(lost(draft), 0.06) << bytes;
  }
}

// What is not loaded is what would never be asked.
TEST(Acceptance, ADraftProposesIfItIsWorthAToken) {
  SpeculationOptions o{.draft = reinterpret_cast<Decoder*>(size_t(64))};
  int tried = 0;
  for (double cost = 0.05; cost < 1.2; cost += 0.05) {
    o.draft_cost = cost;
    EXPECT_EQ(o.draft_proposes(), AcceptanceRate().worth(o, 1) > 0) << cost;
    tried += o.draft_proposes();
  }
  EXPECT_GT(tried, 5);
  EXPECT_LT(tried, 20);
}

TEST(Acceptance, RefusesWhatCannotBe) {
  EXPECT_THROW((SpeculationOptions{.ngrams = true, .most = 0}).validate(), Error);
  EXPECT_THROW((SpeculationOptions{.draft_cost = 0}).validate(), Error);
  EXPECT_THROW((SpeculationOptions{.draft_cost = NAN}).validate(), Error);
  EXPECT_THROW((SpeculationOptions{.ngrams = true, .draft_read = -1}).validate(), Error);
  EXPECT_THROW((SpeculationOptions{.ngrams = true, .rows_per_read = 0}).validate(), Error);
  EXPECT_THROW((SpeculationOptions{.ngrams = true, .draft = reinterpret_cast<Decoder*>(size_t(64))}).validate(), Error);
}

}  // namespace
}  // namespace toy::acceptance_test

// Choosing tokens: cuts, penalties, and draws that follow the distribution.
#include "toy/decode/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "decode/candidates.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy::sampler_test {
namespace {

TEST(Sampler, GreedyTakesTheFirstOfTheLikeliest) {
  const std::vector<float> logits{1, 5, 5, 2};
  EXPECT_EQ(Sampler({}).pick(logits, 0), 1);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits{std::log(0.1f), std::log(0.6f), std::log(0.3f)};
  Sampler sampler({.temperature = 1, .seed = 5});
  std::vector<int> count(3);
  const int n = 30000;
  for (int i = 0; i < n; ++i) ++count[size_t(sampler.pick(logits, uint64_t(i)))];
  const double p[] = {0.1, 0.6, 0.3};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(count[i], n * p[i], 5 * std::sqrt(n * p[i] * (1 - p[i]))) << i;  // 5 sigma
}

TEST(Sampler, TemperatureSharpens) {
  const std::vector<float> logits{0, 1};
  Sampler cold({.temperature = 0.25, .seed = 1});
  int ones = 0;
  for (int i = 0; i < 10000; ++i) ones += cold.pick(logits, uint64_t(i));
  const double p = 1 / (1 + std::exp(-4.0));
  EXPECT_NEAR(ones, 10000 * p, 5 * std::sqrt(10000 * p * (1 - p)));
}

TEST(Sampler, TopKAndTopPCut) {
  const std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  Sampler k({.temperature = 1, .top_k = 2}), p({.temperature = 1, .top_p = 0.6}),
      one({.temperature = 1, .top_p = 1e-9});
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_LT(k.pick(logits, i), 2);
    EXPECT_LT(p.pick(logits, i), 2);
    EXPECT_EQ(one.pick(logits, i), 0);
  }
}

TEST(Sampler, DrawsDependOnSeedAndStepAlone) {
  const std::vector<float> logits(100, 0.0f);
  Sampler a({.temperature = 1, .seed = 1}), b({.temperature = 1, .seed = 1}), c({.temperature = 1, .seed = 2});
  int differ = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a.pick(logits, i), b.pick(logits, i));
    differ += a.pick(logits, i) != c.pick(logits, i);
  }
  EXPECT_GT(differ, 80);
}

TEST(Sampler, RefusesImpossibleOptions) {
  EXPECT_THROW(Sampler({.temperature = -1}), Error);
  EXPECT_THROW(Sampler({.temperature = NAN}), Error);
  EXPECT_THROW(Sampler({.top_k = -2}), Error);
  EXPECT_THROW(Sampler({.top_p = -0.1}), Error);
  EXPECT_THROW(Sampler({.top_p = 1.5}), Error);
  EXPECT_THROW(Sampler({.min_p = -0.1}), Error);
  EXPECT_THROW(Sampler({.min_p = 1.1}), Error);
  EXPECT_THROW(Sampler({.repeat_penalty = 0}), Error);
  EXPECT_THROW(Sampler({.repeat_penalty = NAN}), Error);
  EXPECT_THROW(Sampler({.frequency_penalty = INFINITY}), Error);
  EXPECT_THROW(Sampler({.presence_penalty = NAN}), Error);
  EXPECT_THROW(Sampler({.penalty_last_n = -2}), Error);
}

TEST(Sampler, LogitsThatAreNoneAreAFailure) {
  const auto message = [](const std::vector<float>& logits, const SamplerOptions& o) -> std::string {
    try {
      return "picks " + std::to_string(Sampler(o).pick(logits, 0));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::failure);
      return e.what();
    }
  };
  for (const SamplerOptions& o : {SamplerOptions{}, SamplerOptions{.temperature = 1}}) {
    EXPECT_EQ(message({0, NAN}, o), "the model gives NaN for token 1: its weights are broken");
    EXPECT_EQ(message({0, 1, INFINITY}, o), "the model gives infinity for token 2: its weights are broken");
    EXPECT_EQ(message({-INFINITY, -INFINITY}, o), "the model gives -infinity for every token: its weights are broken");
    EXPECT_EQ(message({-INFINITY, 1, -INFINITY}, o), "picks 1");  // ruled out, and one that is not
  }
}

// Without putting tokens in order, the same tokens are drawn: of flat and steep distributions, with equal logits, with
// ones that are ruled out, and where the border between two tokens is hit, so that the order of sums decides.
TEST(Sampler, DrawsQuicklyWhatItDrawsInOrder) {
  constexpr size_t kVocab = 5000;
  const Philox random(3, "logits");
  int unsure = 0, deep = 0;
  for (const double scale : {0.0, 0.01, 1.0, 4.0, 30.0}) {
    std::vector<float> logits(kVocab);
    for (size_t i = 0; i < kVocab; ++i) {
      const double z =
          std::sqrt(-2 * std::log(1 - random.uniform(2 * i))) * std::cos(6.283 * random.uniform(2 * i + 1));
      logits[i] = float(i % 3 == 0 ? std::round(z * scale) : z * scale);
    }
    for (size_t i = 7; i < kVocab; i += 50) logits[i] = -INFINITY;
    const auto in_order = [&](double uniform) {
      Candidates all(logits, {});
      return all.items()[all.reach(uniform * all.total(), true) - 1].id;
    };
    std::vector<double> uniforms{0, 0x1p-53, 0.5, 1 - 0x1p-53};
    for (uint64_t i = 0; i < 200; ++i) uniforms.push_back(random.uniform(1000000 + i));
    for (uint64_t i = 0; scale == 0 && i < 100; ++i)  // all that may come are equally likely
      uniforms.push_back(double(i * 49) / double(kVocab - kVocab / 50));
    for (const double uniform : uniforms) {
      std::optional<RowSums> sums;
      const std::optional<int32_t> id = draw_of_logits(logits, uniform, sums);
      const int32_t wanted = in_order(uniform);
      unsure += !id, deep += id && wanted > 300;
      if (id) {
        ASSERT_EQ(*id, wanted) << scale << " " << uniform;
      }
      ASSERT_EQ(Candidates(logits, {}).draw(uniform), wanted) << scale << " " << uniform;
      ASSERT_TRUE(sums);
      EXPECT_EQ(sums->logprob(double(logits[0])), log_softmax_at(logits, 0));
      EXPECT_TRUE(std::isfinite(sums->entropy()));
    }
    Sampler sampler(SamplerOptions{.temperature = 1, .seed = 4});
    for (uint64_t i = 0; i < 50; ++i) {
      std::optional<RowSums> sums;
      ASSERT_EQ(sampler.pick(logits, i, {}, &sums), in_order(Philox(4, "sample").uniform(i)));
      EXPECT_TRUE(sums);
    }
  }
  EXPECT_GT(unsure, 50);
  EXPECT_LT(unsure, 150);
  EXPECT_GT(deep, 100);
}

TEST(Logprobs, AreLogSoftmax) {
  const std::vector<float> logits{1, 2, 3};
  const double lse = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_NEAR(log_softmax_at(logits, 0), 1 - lse, 1e-12);
  double entropy = 0;
  for (const double z : logits) entropy -= std::exp(z - lse) * (z - lse);
  EXPECT_EQ(RowSums(logits).logprob(double(logits[1])), log_softmax_at(logits, 1));
  EXPECT_NEAR(RowSums(logits).entropy(), entropy, 1e-12);
  const auto best = top_logprobs(logits, 2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].id, 2);
  EXPECT_EQ(best[1].id, 1);
  EXPECT_NEAR(best[0].logprob, 3 - lse, 1e-12);
}

TEST(Sampler, MinPCutsRelativeToTheLikeliest) {
  // 0.5 * 0.31 = 0.155: above 0.15, below 0.3.
  const std::vector<float> logits{std::log(0.05f), std::log(0.3f), std::log(0.15f), std::log(0.5f)};
  Sampler s({.temperature = 1, .min_p = 0.31}), one({.temperature = 1, .min_p = 1});
  std::vector<int> count(4);
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    ++count[size_t(s.pick(logits, uint64_t(i)))];
    EXPECT_EQ(one.pick(logits, uint64_t(i)), 3);
  }
  EXPECT_EQ(count[0] + count[2], 0);
  const double p = 0.5 / 0.8;
  EXPECT_NEAR(count[3], n * p, 5 * std::sqrt(n * p * (1 - p)));  // 5 sigma
}

TEST(Sampler, MinPIsTakenAtTheTemperature) {
  // The second is 0.6 times as likely at temperature 1 and 0.36 times at one half.
  const std::vector<float> logits{0, std::log(0.6f)};
  Sampler warm({.temperature = 1, .min_p = 0.5}), cold({.temperature = 0.5, .min_p = 0.5});
  int seen = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    seen += warm.pick(logits, i);
    EXPECT_EQ(cold.pick(logits, i), 0);
  }
  EXPECT_GT(seen, 0);
}

// Greedy choice shows which logits were changed: the largest that is left wins.
TEST(Sampler, RepeatPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  const std::vector<int32_t> history{0};
  EXPECT_EQ(Sampler({.repeat_penalty = 2}).pick(std::vector<float>{3, 1.6f}, 0, history), 1);    // 1.5 < 1.6
  EXPECT_EQ(Sampler({.repeat_penalty = 2}).pick(std::vector<float>{3, 1.4f}, 0, history), 0);    // 1.5 > 1.4
  EXPECT_EQ(Sampler({.repeat_penalty = 2}).pick(std::vector<float>{-1, -1.9f}, 0, history), 1);  // -2 < -1.9
  EXPECT_EQ(Sampler({.repeat_penalty = 2}).pick(std::vector<float>{-1, -2.1f}, 0, history), 0);
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  const std::vector<int32_t> thrice{0, 0, 0};
  EXPECT_EQ(Sampler({.frequency_penalty = 0.5}).pick(std::vector<float>{3, 1.6f}, 0, thrice), 1);  // 3 - 1.5
  EXPECT_EQ(Sampler({.frequency_penalty = 0.5}).pick(std::vector<float>{3, 1.4f}, 0, thrice), 0);
  EXPECT_EQ(Sampler({.presence_penalty = 0.5}).pick(std::vector<float>{3, 2.6f}, 0, thrice), 1);  // 3 - 0.5
  EXPECT_EQ(Sampler({.presence_penalty = 0.5}).pick(std::vector<float>{3, 2.4f}, 0, thrice), 0);
  const SamplerOptions all{.repeat_penalty = 2, .frequency_penalty = 0.25, .presence_penalty = 0.25};
  EXPECT_EQ(Sampler(all).pick(std::vector<float>{3, 0.6f}, 0, thrice), 1);  // 3 / 2 - 0.75 - 0.25 = 0.5
  EXPECT_EQ(Sampler(all).pick(std::vector<float>{3, 0.4f}, 0, thrice), 0);
}

// What is beyond f32 stays a number: the rewarded token is chosen, the penalized one never.
TEST(Sampler, HugePenaltiesMakeNoInfinity) {
  const std::vector<int32_t> history{1};
  const std::vector<float> logits{1, 2, 3};
  EXPECT_EQ(Sampler({.temperature = 1, .frequency_penalty = -1e300}).pick(logits, 0, history), 1);
  EXPECT_EQ(Sampler({.temperature = 1, .repeat_penalty = 1e-300}).pick(logits, 0, history), 1);
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_NE(Sampler({.temperature = 1, .presence_penalty = 1e300, .seed = seed}).pick(logits, 0, history), 1);
}

TEST(Sampler, PenaltiesLookAtTheLastN) {
  const std::vector<float> logits{3, 2, 1};
  const std::vector<int32_t> history{0, 1, 1, 2};
  const auto pick = [&](int64_t n) {
    return Sampler({.presence_penalty = 10, .penalty_last_n = n}).pick(logits, 0, history);
  };
  EXPECT_EQ(pick(0), 0);
  EXPECT_EQ(pick(1), 0);
  EXPECT_EQ(pick(3), 0);
  EXPECT_EQ(pick(4), 0);  // all are penalized alike
  EXPECT_EQ(pick(-1), 0);
  EXPECT_EQ(Sampler({.presence_penalty = 10, .penalty_last_n = 2}).pick(logits, 0, std::vector<int32_t>{1, 0, 2}), 1);
  EXPECT_EQ(Sampler({.presence_penalty = 10, .penalty_last_n = -1}).pick(logits, 0, std::vector<int32_t>{1, 0}), 2);
}

// Digits in ascending order, at most three; token 10 ends the text once it has one.
class Ascending : public TokenConstraint {
 public:
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<Ascending>(*this); }
  void mask(std::span<uint64_t> allowed) override {
    std::fill(allowed.begin(), allowed.end(), 0);
    for (int32_t i = last_ + 1; i < 10; ++i) allowed[0] |= uint64_t(count_ < 3) << i;
    if (count_ > 0) allowed[0] |= 1u << 10;
  }
  void accept(int32_t token) override { last_ = token, ++count_; }
  bool finished() const override { return count_ == 3 || last_ >= 9; }

 private:
  int32_t last_ = -1;
  int count_ = 0;
};

TEST(Sampler, AConstraintComesFirstAndFollowsTheText) {
  const SamplerOptions options{.temperature = 1, .top_k = 4, .seed = 3, .constraint = std::make_shared<Ascending>()};
  const std::vector<float> logits(100, 1.0f);  // without the constraint, the four would be 0 to 3
  for (uint64_t text = 0; text < 50; ++text) {
    Sampler s(options);
    EXPECT_FALSE(s.finished());
    const int32_t first = s.pick(logits, 3 * text);
    EXPECT_LT(first, 4);
    Sampler copy = s;
    const int32_t second = s.pick(logits, 3 * text + 1);
    EXPECT_GT(second, first);
    EXPECT_LE(second, first + 4);
    EXPECT_EQ(copy.pick(logits, 3 * text + 1), second);  // a copy continues by itself
    if (second == 10) continue;
    if (!s.finished()) s.pick(logits, 3 * text + 2);
    EXPECT_TRUE(s.finished());
  }
}

TEST(Sampler, AConstraintThatAllowsNothingIsAnError) {
  Sampler s({.constraint = std::make_shared<Ascending>()});
  std::vector<float> logits(20, -INFINITY);
  logits[15] = 1;  // the only token that the model gives, and no digit
  EXPECT_THROW(s.pick(logits, 0), Error);
  logits[7] = -5;
  EXPECT_EQ(s.pick(logits, 0), 7);
}

}  // namespace
}  // namespace toy::sampler_test

// Learning from rewards: weights against finite differences of the losses, and rewards.
#include "toy/train/policy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/philox.h"
#include "toy/train/reward.h"

namespace toy::policy_test {
namespace {

using testing::expect_contains;
using testing::message_of;

// ---- weights

struct Case {
  PolicyLoss loss;
  RewardScale scale;
};

// Six answers to two questions, a vocabulary of five: the loss as the papers write it, from logits, in f64.
class Losses {
 public:
  static constexpr int64_t kVocab = 5, kMost = 6;
  explicit Losses(const Case& c) : case_(c) {
    const Philox random(3);
    uint64_t at = 0;
    for (const int64_t n : tokens_)
      for (int64_t i = 0; i < n * kVocab; ++i) logits_.push_back(random.normal(at++));
    for (int64_t i = 0; i < std::accumulate(tokens_.begin(), tokens_.end(), int64_t(0)); ++i)
      chosen_.push_back(int64_t(random.below(1000 + uint64_t(i), kVocab)));
  }
  double& logit(size_t i) { return logits_[i]; }
  size_t size() const { return logits_.size(); }
  std::vector<PolicySample> samples() const {
    std::vector<PolicySample> list;
    for (size_t i = 0; i < tokens_.size(); ++i) list.push_back({int64_t(i / 3), tokens_[i], rewards_[i], rewards_[i]});
    return list;
  }
  // -log p of token t, counted through all answers.
  double nll(size_t t) const {
    double sum = 0;
    for (int64_t v = 0; v < kVocab; ++v) sum += std::exp(logits_[t * kVocab + size_t(v)]);
    return std::log(sum) - logits_[t * kVocab + size_t(chosen_[t])];
  }
  // -log q of token t: the model without the adapter.
  double base(size_t t) const { return 1.2 + 0.3 * std::sin(double(t)); }
  // J of the papers with ratio p / p_old, p_old being p at `old`, clipped to [1 - low, 1 + high], less `beta` times the
  // divergence from q, as k3 with the token's ratio.
  double loss(const std::vector<double>& old, double low = 0.2, double high = 0.2, double beta = 0) const {
    double all = 0;
    const double count = double(tokens_.size());
    const double total = double(std::accumulate(tokens_.begin(), tokens_.end(), int64_t(0)));
    size_t t = 0;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const size_t g = i / 3 * 3;
      const double mean = (rewards_[g] + rewards_[g + 1] + rewards_[g + 2]) / 3;
      double deviation = 0;
      for (size_t k = g; k < g + 3; ++k) deviation += (rewards_[k] - mean) * (rewards_[k] - mean) / 2;
      const double advantage =
          (rewards_[i] - mean) / (case_.scale == RewardScale::group ? std::sqrt(deviation) + 1e-4 : 1);
      double sum = 0;
      double mean_log = 0;
      for (size_t k = 0; k < size_t(tokens_[i]); ++k) mean_log += (old[t + k] - nll(t + k)) / double(tokens_[i]);
      for (int64_t k = 0; k < tokens_[i]; ++k, ++t) {
        const double own = std::exp(old[t] - nll(t));
        const double ratio = case_.loss == PolicyLoss::gspo ? std::exp(mean_log) : own;
        sum += std::min(ratio * advantage, std::clamp(ratio, 1 - low, 1 + high) * advantage);
        const double d = nll(t) - base(t);
        sum -= beta * own * (std::exp(d) - d - 1);
      }
      const bool per_answer = case_.loss == PolicyLoss::grpo || case_.loss == PolicyLoss::gspo;
      all -= per_answer                       ? sum / double(tokens_[i]) / count
             : case_.loss == PolicyLoss::dapo ? sum / total
                                              : sum / double(kMost) / count;
    }
    return all;
  }

 private:
  Case case_;
  std::vector<int64_t> tokens_{5, 3, 1, 4, 2, 6};
  std::vector<double> rewards_{1, 0, 0.25, 0, 1, 1};
  std::vector<double> logits_;
  std::vector<int64_t> chosen_;
};

class PolicyGradient : public ::testing::TestWithParam<std::tuple<PolicyLoss, RewardScale>> {};

TEST_P(PolicyGradient, IsThatOfTheLoss) {
  const auto [loss, scale] = GetParam();
  Losses losses({loss, scale});
  const PolicyOptions o{.max_tokens = Losses::kMost, .loss = loss, .scale = scale};
  const std::vector<PolicySample> samples = losses.samples();
  const PolicyWeights w = policy_weights(o, samples);
  EXPECT_EQ(w.groups, 2);
  EXPECT_EQ(w.mixed, 2);
  std::vector<double> old, weights;
  for (size_t i = 0; i < samples.size(); ++i)
    for (int64_t k = 0; k < samples[i].tokens; ++k) weights.push_back(w.advantage[i] * w.per_token[i]);
  for (size_t t = 0; t < weights.size(); ++t) old.push_back(losses.nll(t));
  const auto weighted = [&] {
    double sum = 0;
    for (size_t t = 0; t < weights.size(); ++t) sum += weights[t] * losses.nll(t);
    return sum;
  };
  // Central differences with h = 1e-5: their error is h^2 times a third derivative of at most 1, and 1e-16 / h.
  constexpr double kH = 1e-5;
  for (size_t i = 0; i < losses.size(); ++i) {
    double& z = losses.logit(i);
    const double at = z;
    z = at + kH;
    const double up = losses.loss(old), weighted_up = weighted();
    z = at - kH;
    const double down = losses.loss(old), weighted_down = weighted();
    z = at;
    EXPECT_NEAR((weighted_up - weighted_down) / (2 * kH), (up - down) / (2 * kH), 4e-10) << i;
  }
}

// Of later updates: the ratios have moved, some are clipped, and there is a divergence.
TEST_P(PolicyGradient, OfLaterUpdatesIsThatOfTheClippedLoss) {
  const auto [loss, scale] = GetParam();
  Losses losses({loss, scale});
  // Ratios of answers move less than those of tokens, by averaging.
  const double low = loss == PolicyLoss::gspo ? 0.02 : 0.15, high = loss == PolicyLoss::gspo ? 0.03 : 0.1, beta = 0.07;
  const PolicyOptions o{.max_tokens = Losses::kMost,
                        .loss = loss,
                        .scale = scale,
                        .beta = beta,
                        .num_iterations = 2,
                        .epsilon = low,
                        .epsilon_high = high};
  const std::vector<PolicySample> samples = losses.samples();
  const PolicyWeights w = policy_weights(o, samples);
  std::vector<double> old, weights;
  const Philox moved(11);
  size_t t = 0, clipped = 0, all = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<double> ratios, to_base;
    for (int64_t k = 0; k < samples[i].tokens; ++k, ++t) {
      old.push_back(losses.nll(t) + 0.15 * moved.normal(t));
      ratios.push_back(old[t] - losses.nll(t)), to_base.push_back(losses.nll(t) - losses.base(t));
    }
    const AnswerWeights a = update_weights(o, w.advantage[i], w.per_token[i], ratios, to_base);
    weights.insert(weights.end(), a.tokens.begin(), a.tokens.end());
    clipped += size_t(a.clipped), all += ratios.size();
    EXPECT_GT(a.deviation, 0);
  }
  EXPECT_GT(clipped, 0u);
  EXPECT_LT(clipped, all);
  // As above; no ratio is within h of where it is clipped.
  constexpr double kH = 1e-5;
  const auto weighted = [&] {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * losses.nll(i);
    return sum;
  };
  for (size_t i = 0; i < losses.size(); ++i) {
    double& z = losses.logit(i);
    const double at = z;
    z = at + kH;
    const double up = losses.loss(old, low, high, beta), weighted_up = weighted();
    z = at - kH;
    const double down = losses.loss(old, low, high, beta), weighted_down = weighted();
    z = at;
    EXPECT_NEAR((weighted_up - weighted_down) / (2 * kH), (up - down) / (2 * kH), 4e-10) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, PolicyGradient,
                         ::testing::Combine(::testing::Values(PolicyLoss::dapo, PolicyLoss::grpo, PolicyLoss::dr_grpo,
                                                              PolicyLoss::gspo),
                                            ::testing::Values(RewardScale::none, RewardScale::group)));

// tests/golden/make_policy_golden.py: PyTorch's autograd of the losses as papers write them, in f64.
TEST(Policy, GradientsOfPyTorch) {
  const auto golden =
      nlohmann::json::parse(testing::slurp(std::string(TOY_SOURCE_DIR) + "/tests/golden/policy.golden.json"));
  const auto list = [&](const char* name) { return golden.at(name).get<std::vector<double>>(); };
  const std::vector<double> logits = list("logits"), old = list("old"), base = list("base"), rewards = list("rewards");
  const auto chosen = golden.at("chosen").get<std::vector<size_t>>();
  const auto lengths = golden.at("lengths").get<std::vector<int64_t>>();
  const size_t vocab = golden.at("vocab").get<size_t>();
  std::vector<PolicySample> samples;
  for (size_t i = 0; i < lengths.size(); ++i)
    samples.push_back({int64_t(i) / golden.at("group").get<int64_t>(), lengths[i], rewards[i], rewards[i]});
  int64_t clipped = 0;
  for (const auto& c : golden.at("cases")) {
    PolicyOptions o{.max_tokens = golden.at("longest").get<int64_t>(), .beta = c.at("beta").get<double>()};
    ASSERT_EQ(read_value(c.at("loss").get<std::string>(), {}, o.loss), "");
    ASSERT_EQ(read_value(c.at("scale").get<std::string>(), {}, o.scale), "");
    o.epsilon = c.at("epsilon").get<double>(), o.epsilon_high = c.at("epsilon_high").get<double>();
    const auto gradient = c.at("gradient").get<std::vector<double>>();
    const PolicyWeights w = policy_weights(o, samples);
    size_t first = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto n = size_t(lengths[i]);
      std::vector<std::vector<double>> p;
      std::vector<double> ratios, to_base;
      for (size_t t = first; t < first + n; ++t) {
        double sum = 0;
        for (size_t v = 0; v < vocab; ++v) sum += std::exp(logits[t * vocab + v]);
        p.emplace_back();
        for (size_t v = 0; v < vocab; ++v) p.back().push_back(std::exp(logits[t * vocab + v]) / sum);
        const double now = std::log(p.back()[chosen[t]]);
        ratios.push_back(now - old[t]), to_base.push_back(base[t] - now);
      }
      const AnswerWeights a =
          update_weights(o, w.advantage[i], w.per_token[i], ratios, o.beta > 0 ? to_base : std::vector<double>());
      clipped += a.clipped;
      // Numbers below 3 in some ten operations of f64.
      for (size_t t = 0; t < n; ++t)
        for (size_t v = 0; v < vocab; ++v)
          EXPECT_NEAR(a.tokens[t] * (p[t][v] - double(v == chosen[first + t])), gradient[(first + t) * vocab + v],
                      1e-14)
              << c.at("loss") << " " << c.at("scale") << " " << i << " " << t;
      first += n;
    }
  }
  EXPECT_GT(clipped, 0);
}

TEST(Policy, GroupsWithoutADifferenceTeachNothing) {
  const PolicyOptions o{.max_tokens = 4};
  // All wrong, but for form; all right; one that nobody judged; two judged ones that differ.
  const std::vector<PolicySample> samples{{0, 2, 0.1, 0.0}, {0, 2, 0.0, 0.0}, {1, 1, 1.0, 1.0},
                                          {1, 3, 1.0, 1.0}, {2, 2, 1.0, 1.0}, {2, 2, {}, {}},
                                          {3, 4, 1.0, 1.0}, {3, 1, {}, {}},   {3, 1, 0.0, 0.0}};
  const PolicyWeights w = policy_weights(o, samples);
  EXPECT_EQ(w.groups, 4);
  EXPECT_EQ(w.mixed, 1);
  EXPECT_EQ(w.advantage, (std::vector<double>{0, 0, 0, 0, 0, 0, 0.5, 0, -0.5}));
  for (const double p : w.per_token) EXPECT_EQ(p, 1.0 / 18);  // all tokens count, also those of answers without weight
  expect_contains(message_of([&] {
                    policy_weights(o, std::vector<PolicySample>{{0, 0, 1.0, 1.0}});
                  }),
                  "without a token");
}

// ---- rewards

double reward_of(const std::string& reward, const std::string& text, std::vector<std::string> answers = {"12"}) {
  OpenQuestion q;
  q.prompt = "?", q.answers = std::move(answers);
  Judge judge({reward}, 10);
  return judge(std::vector<Attempt>{{&q, text, 3, true}}).at(0).total.value();
}

TEST(Reward, Exact) {
  EXPECT_EQ(reward_of("exact", " 12\n"), 1);
  for (const char* wrong : {"", "1", "12 12", "the answer is 12", "12."})
    EXPECT_EQ(reward_of("exact", wrong), 0) << wrong;
  EXPECT_EQ(reward_of("exact", "b", {"a", "b"}), 1);
  EXPECT_EQ(reward_of("0.5*exact", "12"), 0.5);
}

TEST(Reward, Number) {
  for (const char* right : {"12", " 12.0", "+12.", "1.2e1"}) EXPECT_EQ(reward_of("number", right), 1) << right;
  for (const char* wrong : {"", "x", "12 12", "-12", "12a", "1,2"}) EXPECT_EQ(reward_of("number", wrong), 0) << wrong;
  EXPECT_EQ(reward_of("number", "1,234.50", {"1234.5"}), 1);
  EXPECT_EQ(reward_of("number:last", "3 + 9 = 12."), 1);
  EXPECT_EQ(reward_of("number:last", "12 or 13"), 0);
}

TEST(Reward, PatternsAndSchemas) {
  EXPECT_EQ(reward_of("regex:[0-9]+", "7"), 1);
  EXPECT_EQ(reward_of("regex:[0-9]+", "7 or 8"), 0);  // all of the text
  EXPECT_EQ(reward_of("regex:<a>(.*)</a>", "<a>12</a>"), 1);
  EXPECT_EQ(reward_of("regex:<a>(.*)</a>", "<a>13</a>"), 0);
  // A pattern whose parts fit in 2^40 ways: the time grows with the text only, also where it does not fit.
  EXPECT_EQ(reward_of(R"(regex:(?:\w+ ?)+\.)", "the badger sleeps in its den."), 1);
  EXPECT_EQ(reward_of(R"(regex:(?:\w+ ?)+\.)", std::string(40, 'a')), 0);
  EXPECT_EQ(reward_of(R"(regex:(\d)\1)", "11", {"1"}), 1);  // which the fast matcher cannot
  EXPECT_EQ(reward_of(R"(regex:(\d)\1)", "12", {"1"}), 0);
  EXPECT_EQ(reward_of("number:last", std::string(200000, '1')), 0);
  const testing::Folder folder;
  const std::string schema =
      "json:" + folder.write("s.json", R"({"type": "object", "properties": {"a": {"type": "integer"}},
    "required": ["a"]})");
  EXPECT_EQ(reward_of(schema, R"({"a": 3})"), 1);
  EXPECT_EQ(reward_of(schema, R"({"a": "3"})"), 0);
  EXPECT_EQ(reward_of(schema, "{"), 0);
}

TEST(Reward, Refusals) {
  const auto reason = [](const std::string& reward) { return message_of([&] { Judge({reward}, 10); }); };
  expect_contains(reason("exakt"), "Did you mean 'exact'?");
  expect_contains(reason("exact:3"), "takes no argument");
  expect_contains(reason("x*exact"), "factor");
  for (const char* factor : {"0", "nan", "1e7", "-1e300"})
    expect_contains(reason(factor + std::string("*exact")), "from -1e6 to 1e6 that is not 0");
  expect_contains(reason("regex:("), "regex:(");
  expect_contains(reason("regex:a{100000}"), "smaller numbers in { }");
  expect_contains(reason(R"(regex:\p{L})"), R"(write \{ for the character)");
  expect_contains(reason("regex:[z-a]"), "a range ends before it begins");
  expect_contains(reason("regex:[[:foo:]]"), "no such class");
  expect_contains(reason(R"(regex:(a)\2)"), "no group of this number");
  expect_contains(reason("json:none.json"), "none.json");
  expect_contains(reason("program:"), "no command");
  expect_contains(reason("number:first"), "number:last");
}

// More than a pipe holds, answered in another order; a program that has ended; one that is silent.
TEST(Reward, Programs) {
  const testing::Folder folder;
  const std::string script = folder.write("r.py", R"py(import json, sys
rows = []
for line in sys.stdin:
    row = json.loads(line)
    rows.append(row)
    if len(rows) == 3:
        for r in reversed(rows):
            print(json.dumps({"id": r["id"], "reward": None if r["text"] == "" else len(r["text"]) / 1000}), flush=True)
        rows = []
)py");
  OpenQuestion q;
  q.prompt = "?", q.answers = {"a"};
  std::vector<Attempt> attempts;
  for (int i = 0; i < 300; ++i) attempts.push_back({&q, std::string(size_t(i) * 7, 'a'), 1, true});
  Judge judge({"2*program:python3 " + script}, 20);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::vector<Judgement> all = judge(attempts);
    EXPECT_FALSE(all[0].total);
    for (size_t i = 1; i < 300; ++i) EXPECT_DOUBLE_EQ(*all[i].total, double(i) * 7 / 500);
  }
  const auto reason = [&](const std::string& command, double timeout) {
    Judge broken({"program:" + command}, timeout);
    return testing::error_of([&] { broken(attempts); });
  };
  expect_contains(reason("exit 3", 10), "ended");
  expect_contains(reason("read x; echo hello; sleep 9", 10), "hello");
  expect_contains(reason("read x; echo '{\"id\": 0}'; sleep 9", 10), "without a reward");
  expect_contains(reason("sleep 9", 0.2), "--reward-timeout");
}

}  // namespace
}  // namespace toy::policy_test

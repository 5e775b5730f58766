// Reinforcement learning from groups of answers: what each token of a step weighs. docs/grpo.md has the formulas.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "toy/base/options.h"

namespace toy {

/// What a step divides by: the tokens of all its answers (DAPO, Yu et al. 2025), those of each answer and the answers
/// (GRPO, Shao et al. 2024), or the answers and the most tokens that one may have (Dr. GRPO, Liu et al. 2025). GSPO
/// (Zheng et al. 2025) divides as GRPO, and has one ratio for each answer instead of one for each token.
enum class PolicyLoss { dapo, grpo, dr_grpo, gspo };
/// Their names.
template <>
struct NamesOf<PolicyLoss> {
  static constexpr std::array list = {std::pair("dapo", PolicyLoss::dapo), std::pair("grpo", PolicyLoss::grpo),
                                      std::pair("dr-grpo", PolicyLoss::dr_grpo), std::pair("gspo", PolicyLoss::gspo)};
};
/// Whether rewards are divided by their standard deviation in the group, as GRPO does.
enum class RewardScale { none, group };
/// Their names.
template <>
struct NamesOf<RewardScale> {
  static constexpr std::array list = {std::pair("none", RewardScale::none), std::pair("group", RewardScale::group)};
};

/// How answers are drawn and learned from.
struct PolicyOptions {
  std::vector<std::string> rewards;  ///< see parse_reward(); the first is the outcome
  int64_t group = 8;                 ///< answers to each question
  int64_t questions = 8;             ///< of a step
  int64_t max_tokens = 64;           ///< of an answer, with the token that ends it
  PolicyLoss loss = PolicyLoss::dapo;
  RewardScale scale = RewardScale::none;
  double beta = 0;  ///< of the divergence from the model that the run begins with
  static constexpr int64_t kMostIterations = 64;
  int64_t num_iterations = 1;  ///< updates from the answers of a step
  /// How far a ratio may fall below 1 or rise above it before it is clipped. Absent: 0.2 or epsilon; of gspo 3e-4,
  /// 4e-4.
  std::optional<double> epsilon = {}, epsilon_high = {};
  double reward_timeout = 10;  ///< seconds that a program may take until its next answer

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Rewards";
    f({.name = "rewards",
       .help = "exact, number, regex:R, json:FILE, finished or program:CMD; several add up",
       .group = k,
       .flags = "--reward",
       .text = "REWARD",
       .required = true},
      o.rewards);
    f({"group", "Answers to each question", from_to(2, 1024), k}, o.group);
    f({"questions", "Questions per step", from_to(1, 65536), k}, o.questions);
    f({"max_tokens", "Tokens of an answer, at most", at_least(1), k}, o.max_tokens);
    f({"loss", "How tokens are weighed: dapo, grpo, dr-grpo or gspo", {}, k}, o.loss);
    f({"scale", "Divide rewards by nothing, or by their deviation in the group", {}, k, "", "", "--scale-rewards"},
      o.scale);
    f({"beta", "Weight of the divergence from the model that the run begins with", at_least(0), k}, o.beta);
    f({"num_iterations", "Updates from the answers of a step; from the second on, clipped", from_to(1, kMostIterations),
       k},
      o.num_iterations);
    f(text_option("epsilon", "How far a ratio may fall below 1; by default 0.2, of gspo 0.0003", k, "", "",
                  from_to_below(0, 1)),
      o.epsilon);
    f(text_option("epsilon_high", "How far it may rise above 1; by default --epsilon, of gspo 0.0004", k, "", "",
                  at_least(0)),
      o.epsilon_high);
    f({"reward_timeout", "Seconds until the next answer of a reward program, at most", above(0), k}, o.reward_timeout);
  }
};

/// An answer to a question.
struct PolicySample {
  int64_t group = 0;              ///< samples of one group follow each other
  int64_t tokens = 0;             ///< with the one that ends it
  std::optional<double> reward;   ///< absent: nobody judged it
  std::optional<double> outcome;  ///< the first reward alone
};

/// What the samples of a step weigh.
struct PolicyWeights {
  std::vector<double> advantage;  ///< of each sample
  std::vector<double> per_token;  ///< what each of its tokens counts: 1 / norm
  int64_t groups = 0, mixed = 0;  ///< groups; those whose outcomes differ
};
/// The gradient of a step's first update is that of the sum over tokens of advantage * per_token * (-log p); for more
/// updates see update_weights(). Advantages are rewards less their mean in the group. They are 0 where all outcomes of
/// a group are the same: rewards for form alone would lead anywhere there. A sample that was not judged counts in no
/// mean. Throws Error{bad_input} for a sample without tokens.
PolicyWeights policy_weights(const PolicyOptions& options, std::span<const PolicySample> samples);

/// What the tokens of an answer weigh in an update.
struct AnswerWeights {
  std::vector<double> tokens;  ///< the update's gradient is that of the sum of these times -log p
  int64_t clipped = 0;         ///< tokens whose ratio is clipped, so that the reward has no gradient there
  double deviation = 0;        ///< largest |ratio - 1|
};
/// Of an answer whose tokens had log p' when the step's first update began. `log_ratios`: log p - log p' of each token,
/// p being now's probability. `log_base`: log q - log p of the model that the run began with, or empty. With ratio r =
/// p / p' (of gspo the geometric mean over the answer) a token weighs advantage * r, or 0 where it is clipped, plus
/// beta * p / p' * log(q / p), all of it times per_token.
AnswerWeights update_weights(const PolicyOptions& options, double advantage, double per_token,
                             std::span<const double> log_ratios, std::span<const double> log_base);

}  // namespace toy

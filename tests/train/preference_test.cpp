// Preference training: what changes no bit, dropout, rows of pairs.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/data/packing.h"
#include "toy/models/adapter.h"
#include "train_testing.h"

namespace toy::preference_test {
namespace {

// With a new adapter. `b`: whether it adds something already.
Model adapted(const ModelSpec& spec, const Device& device, const LoraOptions& options, bool b, double scale = 1) {
  Model model = random_model(spec, device, 9, scale);
  model.spec.adapters.push_back(lora_adapter(model.spec, options));
  model.spec.roles.train = {"*.lora_[ab]"};
  add_adapter_weights(model, 5);
  const Philox random(8, "b");
  for (const TensorSpec& t : trained_tensors(model.spec)) {
    if (!b || !t.name.ends_with(".lora_b")) continue;
    std::vector<float> values(size_t(t.shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(0.05 * random.normal(i + hash_name(t.name) % 999983));
    model.params->write(t.name, values);
  }
  return model;
}

// Losses alone, against differences of themselves.
TEST(Preference, SlopesAreDifferencesOfTheLoss) {
  std::vector<ScoredAnswer> answers{{-12.5, -13, 4, true, -15.5, 6},
                                    {-9, -8.25, 3, false, -12, 5},
                                    {-2, -2.5, 7, true, -9, 12},
                                    {-6, -7, 2, false, -7, 3}};
  for (const PreferenceLoss loss :
       {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    const PreferenceOptions o{loss, 0.4};
    const PreferenceResult r = preference_loss(o, answers, 0.7);
    ASSERT_EQ(r.slopes.size(), answers.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      constexpr double kStep = 1e-5;  // the error of a central difference is about 1e-10
      const double of_text = answers[i].chosen ? r.text_slope : 0;
      EXPECT_EQ(of_text > 0, answers[i].chosen && loss == PreferenceLoss::orpo);
      for (const bool in_prompt : {false, true}) {
        const auto at = [&](double d) {  // a token's -log p is larger by it
          auto moved = answers;
          moved[i].text -= d;
          if (!in_prompt) moved[i].policy -= d;
          return preference_loss(o, moved, 0.7).sums.mean_loss();
        };
        EXPECT_NEAR(of_text + (in_prompt ? 0 : r.slopes[i]), (at(kStep) - at(-kStep)) / (2 * kStep), 1e-8)
            << name_of(loss) << " " << i;
      }
    }
  }
  EXPECT_EQ(preference_loss({PreferenceLoss::dpo}, answers).sums.rewards().accuracy, 0.5);
  // Certain answers: finite, and of a sign that helps.
  answers[0].policy = 0, answers[1].policy = -1e4;
  for (const PreferenceLoss loss : {PreferenceLoss::dpo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    const PreferenceResult r = preference_loss({loss}, answers);
    EXPECT_TRUE(std::isfinite(r.sums.loss)) << name_of(loss);
    for (const double s : r.slopes) EXPECT_TRUE(std::isfinite(s)) << name_of(loss);
  }
}

// Answers of some pairs, packed.
class Pairs {
 public:
  PackedRows rows(int64_t tokens, bool pairs = true) const {
    return {ids_, begins_, ids_.size(), tokens, 1, trained_, {chosen_, pairs}};
  }
  Pairs() {
    for (size_t k = 0; k < 24; ++k) {
      const size_t n = 4 + k * k % 7;
      begins_.push_back(ids_.size());
      for (size_t i = 0; i < n; ++i) {
        ids_.push_back(int32_t(Philox(6, "pairs").below(ids_.size(), 97)));
        trained_.push_back(i >= 2);
      }
      chosen_.push_back(k % 2 == 0);
    }
  }

 private:
  std::vector<int32_t> ids_;
  std::vector<uint64_t> begins_;
  std::vector<uint8_t> trained_, chosen_;
};

// What is recomputed or remembered, and by how many threads, changes no bit of an adapter, trained on text or on
// preferences.
TEST(PreferenceAndLora, RecomputationAndThreadsChangeNoBit) {
  const Pairs pairs;
  const auto train = [&](const TrainerOptions& options, const Recompute& recompute, int threads,
                         bool ids_known = true) {
    const auto device = make_test_device(threads);
    Model model = adapted(testing::odd_spec(false), *device, {.rank = 4, .dropout = 0.1}, false);
    TrainerOptions o = options;
    o.batch = 2, o.tokens = 23, o.accumulate = 2, o.seed = 5, o.recompute = recompute;
    Trainer trainer(*device, model, o);
    const bool is_pair = o.preference && takes_pairs(o.preference->loss);
    const PackedRows answers = pairs.rows(o.tokens, is_pair);
    const auto ids = testing::walk(4000);
    const WindowSampler sampler(ids, o.batch, o.tokens, 1);
    std::vector<double> numbers;
    for (int64_t step = 0; step < 4; ++step) {
      Windows w = o.preference ? answers.windows(4 * step, 4) : sampler.windows(4 * step, 4);
      for (Answer& a : w.answers)
        if (!ids_known) a.id = -1;
      const StepResult s = trainer.step(w, 3e-2);
      numbers.push_back(s.loss), numbers.push_back(s.grad_norm.value());
      if (o.preference) numbers.push_back(s.preference.rewards().chosen.value_or(0));
    }
    for (const TensorSpec& t : trained_tensors(model.spec))
      for (const float v : model.params->read(t.name)) numbers.push_back(double(v));
    return numbers;
  };
  std::vector<TrainerOptions> cases{{}, {.dropout = 0.2}};
  for (const PreferenceLoss loss :
       {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    cases.push_back({});
    cases.back().preference = PreferenceOptions{loss};
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto kept = train(cases[i], {}, 1);
    EXPECT_TRUE(train(cases[i], {}, 3) == kept) << i;
    EXPECT_TRUE(train(cases[i], {.whole = 1, .light = 1}, 2) == kept) << i;
    EXPECT_TRUE(train(cases[i], {.whole = 2}, 1) == kept) << i;
    EXPECT_TRUE(train(cases[i], {}, 2, false) == kept) << i;  // no reference is remembered
    EXPECT_EQ(train(cases[0], {}, 1) == kept, i == 0) << i;
  }
}

// The gradient of a step with dropout is that of the loss that it states: both see the same dropped inputs. In f64,
// against the loss after a small step along the gradient.
TEST(Preference, PreferencesWithDropoutDescendTheirOwnLoss) {
  const auto device = make_reference_device();
  const Windows w = Pairs().rows(40).windows(0, 2);
  for (const PreferenceLoss loss : {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::orpo}) {
    // Of a new trainer, whose first step draws the same numbers: the loss of weights moved by -rate times the gradient.
    std::map<std::string, std::vector<float>> gradient;
    const auto loss_at = [&](double rate, bool keep) {
      Model model = adapted(testing::odd_spec(false), *device, {.rank = 3, .dropout = 0.3}, true, 2.0);
      for (auto& [name, g] : gradient) {
        std::vector<float> values = model.params->read(name);
        for (size_t i = 0; i < g.size(); ++i) values[i] = float(double(values[i]) - rate * double(g[i]));
        model.params->write(name, values);
      }
      TrainerOptions o = testing::bare(2, 40);
      o.preference = PreferenceOptions{loss}, o.seed = 4;
      Trainer trainer(*device, model, o);
      const double value = trainer.step(w, 1e-12).loss;
      for (const TensorSpec& t : trained_tensors(model.spec))
        if (keep) gradient[t.name] = trainer.moments().read(t.name + ".v");
      return value;
    };
    loss_at(0, true);
    double squared = 0;
    for (const auto& [name, g] : gradient)
      for (const float v : g) squared += double(v) * double(v);
    ASSERT_GT(squared, 1e-6);
    // d loss / d rate is -|g|^2. Central differences of two sizes leave an error of the fourth power of the step.
    const auto slope = [&](double step) {
      const double rate = step / std::sqrt(squared);
      return (loss_at(rate, false) - loss_at(-rate, false)) / (2 * rate);
    };
    // Log probabilities of about 50 nats are rounded to f32 token by token: some 1e-6 of a loss that moves by 1e-3.
    EXPECT_NEAR((4 * slope(1e-3) - slope(2e-3)) / 3 / -squared, 1, 2e-3) << name_of(loss);
  }
}

// Sums of batches can be added: means are over all answers, and those of texts over all tokens.
TEST(Preference, SumsOfBatchesAddUp) {
  const std::vector<ScoredAnswer> answers{{-12.5, -13, 4, true, -15.5, 6},
                                          {-9, -8.25, 3, false, -12, 5},
                                          {-2, -2.5, 7, true, -9, 120},
                                          {-6, -7, 2, false, -7, 3}};
  for (const PreferenceLoss loss :
       {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    const auto sums = [&](size_t first, size_t n) {
      return preference_loss({loss}, std::span(answers).subspan(first, n), 0.25).sums;
    };
    PreferenceSums both = sums(0, 2);
    both.add(sums(2, 2));
    const double together = sums(0, 4).mean_loss();
    EXPECT_NEAR(both.mean_loss(), together, 8 * 0x1p-52 * together) << name_of(loss);
  }
}

// A token of an answer has the bits that it has in any row, so a validation's loss depends on the length of rows only
// by the order of its sum, and on the batch not at all. KTO's prompts meet the answer before, whose order rows change.
TEST(Preference, PreferencesAreTheSameInAnyRows) {
  const auto device = make_test_device(2);
  Model model = adapted(testing::odd_spec(true), *device, {.rank = 4}, true);
  const Pairs pairs;
  for (const PreferenceLoss loss :
       {PreferenceLoss::dpo, PreferenceLoss::ipo, PreferenceLoss::kto, PreferenceLoss::orpo}) {
    std::map<int64_t, EvalResult> by_tokens;
    for (const int64_t tokens : {20, 41, 60})
      for (const int64_t batch : {1, 2, 3, 7}) {
        Trainer trainer(*device, model, {.batch = batch, .tokens = tokens, .preference = PreferenceOptions{loss}});
        const PackedRows rows = pairs.rows(tokens, takes_pairs(loss));
        const EvalResult r = trainer.evaluate(rows);
        const EvalResult &same = by_tokens.try_emplace(tokens, r).first->second, &first = by_tokens.at(20);
        EXPECT_EQ(r.mean(), same.mean()) << name_of(loss) << " " << tokens << " " << batch;
        EXPECT_EQ(r.tokens, first.tokens);
        EXPECT_EQ(r.preference.right, first.preference.right);
        EXPECT_EQ(r.preference.terms, takes_pairs(loss) ? 12 : 24);
        if (takes_pairs(loss)) {
          EXPECT_NEAR(r.mean(), first.mean(), 24 * 0x1p-52 * first.mean());
        }
      }
    EXPECT_GT(std::fabs(by_tokens.at(20).mean() - std::log(2)), 1e-4);
  }
}

// KTO's prompts with other answers lie one after the other, whatever rows there are: three rows of 20 places are one
// of 60.
TEST(Preference, MismatchedAnswersMayCrossRows) {
  const auto device = make_test_device(2);
  for (const ModelSpec& spec : {testing::odd_spec(true), model_spec("hybrid-tiny", 97)}) {
    Model model = adapted(spec, *device, {.rank = 4}, true);
    Windows w;
    for (int32_t k = 0; k < 3; ++k) {
      const int32_t prompt = 5 + k, places = 18 - k;
      w.answers.push_back({20 * k, places, k == 1});
      for (int32_t t = 0; t < 20; ++t) {
        w.inputs.push_back((7 * t + 13 * k) % 97), w.targets.push_back((7 * t + 7 + 13 * k) % 97);
        w.sequence.push_back(t < places ? k : -1 - k), w.position.push_back(t < places ? t : t - places);
        w.trained.push_back(t >= prompt && t < places);
      }
    }
    std::vector<StepWeights> all;
    for (const auto& [batch, tokens] : {std::pair<int64_t, int64_t>{3, 20}, {1, 60}}) {
      Trainer trainer(*device, model,
                      {.batch = batch, .tokens = tokens, .preference = PreferenceOptions{PreferenceLoss::kto}});
      all.push_back(trainer.weigh(w));
    }
    EXPECT_EQ(all[0].targets, all[1].targets) << spec.architecture;
    EXPECT_EQ(all[0].preference->mean_loss(), all[1].preference->mean_loss()) << spec.architecture;
  }
}

}  // namespace
}  // namespace toy::preference_test

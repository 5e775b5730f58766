// A step of reinforcement learning: what is drawn, how answers share their prompt, and what is learned from it.
#include "train/rollouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/generate.h"
#include "toy/eval/open_questions.h"
#include "toy/train/policy.h"

namespace toy::rollouts_test {
namespace {

Model byte_model(const Device& device, std::vector<std::string> frozen = {}) {
  ModelSpec spec = testing::small_model(
      "tiny", {.vocab = 256, .d_model = 32, .context = 64, .heads = 4, .kv_heads = 2, .d_head = 8, .d_ff = 48});
  spec.roles.freeze = std::move(frozen);
  Model model = random_model(spec, device, 7);
  model.tokenizer = make_byte_tokenizer();
  return model;
}

std::vector<TextFile> tasks(const testing::Folder& folder, const std::string& rows) {
  const std::vector<std::string> paths{folder.write("tasks.jsonl", rows)};
  return list_text_files(paths).files;
}

// One token, right if it is one of 64 of the 256: the best policy gives all its probability to these. The ratio of
// training's and the sampler's probabilities is 1 to the bit in every step, although the weights change much.
TEST(Rollouts, ABanditFindsItsArm) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  Model model = byte_model(*device);
  const PolicyOptions o{.rewards = {"regex:[@A-Z\\[\\\\\\]^_`a-z{|}~]"}, .group = 16, .questions = 4, .max_tokens = 1};
  const auto files = tasks(folder, R"({"prompt": "Q", "answer": "a"})"
                                   "\n"
                                   R"({"prompt": "Why?", "answer": "b"})"
                                   "\n");
  Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
  EXPECT_EQ(rollouts.longest(), 5);
  rollouts.begin(*device, model, {.batch = 4, .tokens = 64}, nullptr, 1);
  Trainer trainer(*device, model,
                  {.batch = 4,
                   .tokens = 64,
                   .accumulate = 2,
                   .optimizer = OptimizerOptions::of(OptimizerOptions::adamw),
                   .hidden = true});
  double first = 0, last = 0;
  constexpr int kSteps = 80;
  for (int i = 0; i < kSteps; ++i) {
    Rollouts::Step step = rollouts.step(i * o.questions);
    EXPECT_EQ(step.policy.length, 1);
    if (i < 5) first += *step.policy.reward / 5;
    if (i >= kSteps - 5) last += *step.policy.reward / 5;
    rollouts.learn(step, trainer, 5e-3);
    ASSERT_EQ(step.policy.ratio_deviation, 0) << i;
  }
  EXPECT_LT(first, 0.7);
  EXPECT_GT(last, 0.97);
}

// Several updates from the same answers: the first has ratios of exactly 1, the later ones have moved, and what they
// move is limited by clipping.
TEST(Rollouts, LaterUpdatesHaveRatiosThatMove) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  const auto files = tasks(folder, R"({"prompt": "Q", "answer": "a"})"
                                   "\n");
  for (const PolicyLoss loss : {PolicyLoss::dapo, PolicyLoss::gspo}) {
    const auto drift_of = [&](int64_t iterations, double epsilon) {
      Model model = byte_model(*device);
      const PolicyOptions o{.rewards = {"regex:[^a-p]*"},
                            .group = 6,
                            .questions = 3,
                            .max_tokens = 5,
                            .loss = loss,
                            .num_iterations = iterations,
                            .epsilon = epsilon};
      Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
      rollouts.begin(*device, model, {.batch = 2, .tokens = 16}, nullptr, 1);
      Trainer trainer(*device, model,
                      {.batch = 2,
                       .tokens = 16,
                       .accumulate = 2,
                       .optimizer = OptimizerOptions::of(OptimizerOptions::adamw),
                       .hidden = true});
      Rollouts::Step step = rollouts.step(0);
      EXPECT_FALSE(step.policy.clip_share);
      const std::vector<float> first = step.weights;
      rollouts.learn(step, trainer, 3e-3);
      EXPECT_EQ(step.policy.ratio_deviation, 0);
      EXPECT_EQ(trainer.updates(), iterations);
      EXPECT_EQ(bool(step.policy.clip_share), iterations > 1);
      EXPECT_EQ(step.weights == first, iterations == 1);
      // The next answers are drawn from the weights that all updates made.
      Rollouts::Step next = rollouts.step(3);
      rollouts.learn(next, trainer, 3e-3);
      EXPECT_EQ(next.policy.ratio_deviation, 0);
      return step.policy;
    };
    drift_of(1, 0.2);
    const runs::Policy two = drift_of(2, 0.9), tight = drift_of(4, 1e-4), loose = drift_of(4, 0.9);
    EXPECT_GT(two.ratio_drift.value(), 1e-3);
    EXPECT_GT(loose.ratio_drift.value(), *two.ratio_drift);
    EXPECT_GT(tight.clip_share.value(), 0.3);
    EXPECT_LT(loose.clip_share.value(), *tight.clip_share);
  }
}

// A sampler that says other probabilities than the model has is noticed in the first step of a process and in every Nth
// of the run; rows that differ are in any step.
TEST(Rollouts, ComparesProbabilitiesNowAndThen) {
  const testing::Folder folder;
  const auto device = make_test_device(1);
  const auto files = tasks(folder, R"({"prompt": "Q", "answer": "a"})"
                                   "\n");
  Model model = byte_model(*device);
  const PolicyOptions o{.rewards = {"regex:[^a-p]*"}, .group = 6, .questions = 3, .max_tokens = 5};
  Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
  rollouts.begin(*device, model, {.batch = 2, .tokens = 16}, nullptr, 3);
  Trainer trainer(*device, model,
                  {.batch = 2,
                   .tokens = 16,
                   .accumulate = 2,
                   .optimizer = OptimizerOptions::of(OptimizerOptions::sgd),
                   .hidden = true});
  const auto deviation = [&](int64_t number, bool other_row) {
    Rollouts::Step step = rollouts.step(number * o.questions);
    EXPECT_FALSE(step.answers.empty()) << number;
    for (Rollouts::Step::Answer& a : step.answers) a.logprobs[1] += 1e-3, a.rows[1] ^= uint64_t(other_row);
    rollouts.learn(step, trainer, 1e-3);
    return step.policy.ratio_deviation.value();
  };
  const double most = 1 - std::exp(-1e-3);
  EXPECT_NEAR(deviation(1, false), most, 1e-9);  // the first of this process
  EXPECT_EQ(deviation(2, false), 0);
  EXPECT_NEAR(deviation(3, false), most, 1e-9);
  EXPECT_EQ(deviation(4, false), 0);
  EXPECT_NEAR(deviation(5, true), most, 1e-9);
}

// A step's weights are those of the formulas, its windows the prompts with the answers.
TEST(Rollouts, AStepsWindowsAndWeights) {
  const testing::Folder folder;
  const auto device = make_test_device(1);
  const Model model = byte_model(*device);
  const PolicyOptions o{.rewards = {"regex:[^a-p]*"}, .group = 6, .questions = 3, .max_tokens = 5};
  const auto files = tasks(folder, R"({"prompt": "abc", "answer": "a"})"
                                   "\n");
  const auto step_of = [&](uint64_t seed, int64_t first, int64_t batch) {
    Rollouts rollouts(o, files, *model.tokenizer, nullptr, seed, [](const std::string&) {});
    rollouts.begin(*device, model, {.batch = batch, .tokens = 16});
    return rollouts.step(first);
  };
  const Rollouts::Step step = step_of(1, 0, 2);
  EXPECT_EQ(step.tokens, 90);  // bytes have no token that ends an answer
  EXPECT_EQ(step.policy.finished, 0);
  ASSERT_FALSE(step.windows.inputs.empty());
  EXPECT_EQ(step.windows.inputs.size() % 32, 0u);
  double sum = 0;
  int64_t counted = 0;
  for (size_t i = 0; i < step.windows.inputs.size(); ++i) {
    sum += double(step.weights[i]);
    counted += step.weights[i] != 0;
    EXPECT_TRUE(step.weights[i] == 0 || step.windows.counts(i)) << i;
    EXPECT_EQ(step.windows.counts(i), step.windows.sequence[i] >= 0 && step.windows.position[i] >= 2) << i;  // "abc"
  }
  EXPECT_EQ(counted % (6 * 5), 0);  // of each mixed group, all tokens
  EXPECT_NEAR(sum, 0, 1e-6);        // answers of one length: advantages add up to 0
  EXPECT_EQ(step.windows.inputs, step_of(1, 0, 2).windows.inputs);
  EXPECT_NE(step.windows.inputs, step_of(2, 0, 2).windows.inputs);
  EXPECT_NE(step.windows.inputs, step_of(1, 3, 2).windows.inputs);
}

// The likeliest answers to questions that nothing is learned from: the same in any step, a part of them where that is
// wanted, and drawing is not changed by it.
TEST(Rollouts, ValidatesOnHeldOutQuestions) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  const Model model = byte_model(*device);
  const PolicyOptions o{.rewards = {"regex:[^a-p]*"}, .group = 6, .questions = 3, .max_tokens = 2};
  std::string rows, others;
  for (int i = 0; i < 10; ++i) rows += "{\"prompt\": \"Is it " + std::to_string(i) + "?\", \"answer\": \"a\"}\n";
  for (int i = 0; i < 300; ++i)  // more than are asked in a round
    others += "{\"prompt\": \"What is " + std::to_string(i * i) + "?\", \"answer\": \"b\"}\n";
  const auto files = tasks(folder, rows);
  const std::vector<std::string> other{folder.write("others.jsonl", others)};
  const auto quiet = [](const std::string&) {};
  const auto go_on = [] { return false; };

  Rollouts given(o, files, *model.tokenizer, nullptr, 5, quiet, {list_text_files(other).files, 0});
  EXPECT_EQ(given.questions(), 10);
  EXPECT_EQ(given.held_out(), 300);
  EXPECT_EQ(given.held_out(7), 7);
  EXPECT_EQ(given.held_out_rounds(0), 2);
  EXPECT_EQ(given.longest(), int64_t(std::string("Is it 0?").size()) + 2);  // batches do not depend on the others
  EXPECT_EQ(given.longest_of_all(), int64_t(std::string("What is 89401?").size()) + 2);
  given.begin(*device, model, {.batch = 2, .tokens = 16});
  const auto all = given.validate(0, go_on), some = given.validate(7, go_on);
  ASSERT_TRUE(all && some);
  EXPECT_TRUE(all->whole);
  EXPECT_FALSE(some->whole);
  EXPECT_EQ(some->reward * 7, std::round(some->reward * 7));
  EXPECT_GT(all->reward, 0);
  EXPECT_LT(all->reward, 1);
  EXPECT_NEAR(all->error, std::sqrt(all->reward * (1 - all->reward) / 299), 1e-12);
  int asked = 0;
  EXPECT_FALSE(given.validate(0, [&] { return ++asked == 2; }));

  // As a plain loop has it, one question after the other.
  Decoder decoder(*device, model, {.sequences = 1, .context = 64, .max_rows = 32, .kv = DType::f32, .exact = true});
  Judge judge(o.rewards, 1);
  double right = 0;
  const std::vector<OpenQuestion> questions = read_open_questions(list_text_files(other).files[0]);
  for (const OpenQuestion& q : questions) {
    decoder.state().reset(0);
    std::string text;
    for (const GeneratedToken& t : generate(decoder, 0, model.tokenizer->encode(q.prompt), {}, {.max_tokens = 2}))
      text += model.tokenizer->token_bytes(t.chosen.id);
    right += *judge(std::vector<Attempt>{{&q, text, 2, false}})[0].total;
  }
  EXPECT_EQ(all->reward, right / 300);

  // Validations between its steps change nothing of what is drawn.
  Rollouts none(o, files, *model.tokenizer, nullptr, 5, quiet);
  EXPECT_EQ(none.held_out(), 0);
  none.begin(*device, model, {.batch = 2, .tokens = 16});
  EXPECT_EQ(given.step(3).windows.inputs, none.step(3).windows.inputs);

  // The last of the questions, where no others are given.
  const Rollouts part(o, files, *model.tokenizer, nullptr, 5, quiet, {{}, 0.35});
  EXPECT_EQ(part.questions(), 7);
  EXPECT_EQ(part.held_out(), 3);
}

// What draws and scores is planned before it is there, on a device that counts what it holds; what lies between tensors
// comes on top.
TEST(Rollouts, MemoryIsKnownBeforehand) {
  const testing::Folder folder;
  const auto device = gpu::make_gpu_device(gpu::make_emulated_driver(gpu::ItemOrder::ascending, size_t(64) << 20));
  const Model model = byte_model(*device), base = byte_model(*device);
  const auto files = tasks(folder, R"({"prompt": "Question", "answer": "a"})"
                                   "\n");
  const auto dtype_of = [&](const std::string& name) { return model.params->type(name).dtype; };
  const TrainerOptions trainer{.batch = 4, .tokens = 16, .hidden = true};
  size_t last = 0;
  for (const auto& [beta, updates] : {std::pair{0.0, 1}, {0.0, 2}, {0.5, 2}}) {
    PolicyOptions o{.rewards = {"regex:a"}, .group = 8, .questions = 2, .max_tokens = 4, .beta = beta};
    o.num_iterations = updates;
    Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
    const size_t planned = rollouts.bytes(*device, model.spec, dtype_of, trainer), before = device->held().bytes;
    EXPECT_GT(planned, last);  // each of the three holds more
    last = planned;
    rollouts.begin(*device, model, trainer, &base);
    EXPECT_GE(device->held().bytes - before, planned);
    EXPECT_LT(device->held().bytes - before, planned + planned / 8);
  }
}

// All weights learn, and another model of the same weights is what they are kept near: the divergence is 0 to the bit
// before the first update, and what pulls back is there after it.
TEST(Rollouts, AllWeightsAreKeptNearWhatTheyBeganWith) {
  const testing::Folder folder;
  const auto device = make_test_device(2);
  Model model = byte_model(*device);
  const Model base = byte_model(*device);
  const auto files = tasks(folder, R"({"prompt": "Q", "answer": "a"})"
                                   "\n");
  // No answer is right, so that nothing but the divergence has a gradient.
  const PolicyOptions o{.rewards = {"regex:zzzz"}, .group = 32, .questions = 4, .max_tokens = 5, .beta = 0.5};
  Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
  rollouts.begin(*device, model, {.batch = 4, .tokens = 16}, &base, 1);
  Trainer trainer(*device, model,
                  {.batch = 4,
                   .tokens = 16,
                   .accumulate = 2,
                   .optimizer = OptimizerOptions::of(OptimizerOptions::sgd),
                   .hidden = true});
  const Rollouts::Step same = rollouts.step(0);
  EXPECT_EQ(same.policy.kl, 0.0);
  EXPECT_TRUE(same.windows.inputs.empty());  // nothing pulls
  std::vector<float> moved = model.params->read("output_norm.weight");
  for (float& v : moved) v *= 3;
  model.params->write("output_norm.weight", moved);
  const auto far = [&] {  // the divergence of the first token, exactly
    const auto logits = [&](const Model& m) {
      Decoder decoder(*device, m, {.sequences = 1, .context = 8, .max_rows = 8, .kv = DType::f32, .exact = true});
      decoder.decode(std::vector<DecodeRow>{{0, 'Q', true}});
      return std::vector<float>(decoder.logits(0).begin(), decoder.logits(0).end());
    };
    const std::vector<float> z = logits(model), of_base = logits(base);
    double sum = 0, sum_base = 0, kl = 0;
    for (size_t i = 0; i < z.size(); ++i) sum += std::exp(double(z[i])), sum_base += std::exp(double(of_base[i]));
    for (size_t i = 0; i < z.size(); ++i) {
      const double log_p = double(z[i]) - std::log(sum), log_q = double(of_base[i]) - std::log(sum_base);
      kl += std::exp(log_p) * (log_p - log_q);
    }
    return kl;
  };
  const double before = far();
  EXPECT_GT(before, 1e-3);
  for (int i = 1; i < 13; ++i) {
    Rollouts::Step step = rollouts.step(o.questions * i);
    EXPECT_GT(step.policy.kl.value(), 0) << i;
    rollouts.learn(step, trainer, 0.2);
    EXPECT_EQ(step.policy.ratio_deviation, 0) << i;
  }
  EXPECT_LT(far(), before);
  EXPECT_EQ(base.params->read("output_norm.weight"), byte_model(*device).params->read("output_norm.weight"));
}

// Answers that share their prompt's places: the same answers, ratios of exactly 1, and the gradient of answers that
// each have their prompt, but for the order of sums, for a model with windows, too.
TEST(Rollouts, APromptIsComputedOnceForItsAnswers) {
  const testing::Folder folder;
  const auto files = tasks(folder, R"({"prompt": "What is it? ", "answer": "a"})"
                                   "\n"
                                   R"({"prompt": "Well: ", "answer": "b"})"
                                   "\n");
  const PolicyOptions o{.rewards = {"regex:[^a-p]*"}, .group = 6, .questions = 4, .max_tokens = 5};
  struct Outcome {
    Rollouts::Step step;
    StepResult result;
    std::vector<float> weights;
  };
  const auto learned = [&](int64_t spread, int threads, int64_t window) {
    const auto device = make_test_device(threads);
    Model model = byte_model(*device);
    for (LayerSpec& l : model.spec.layers) l.window = window;
    EXPECT_TRUE(can_spread(model.spec));
    Rollouts rollouts(o, files, *model.tokenizer, nullptr, 5, [](const std::string&) {});
    rollouts.begin(*device, model, {.batch = 3, .tokens = 24, .spread = spread}, nullptr, 1);
    Trainer trainer(*device, model,
                    {.batch = 3,
                     .tokens = 24,
                     .accumulate = 2,
                     .optimizer = OptimizerOptions::of(OptimizerOptions::sgd),
                     .spread = spread,
                     .hidden = true});
    Outcome out{rollouts.step(0), {}, {}};
    out.result = rollouts.learn(out.step, trainer, 1);
    for (const TensorSpec& t : trained_tensors(model.spec)) {
      const std::vector<float> values = model.params->read(t.name);
      out.weights.insert(out.weights.end(), values.begin(), values.end());
    }
    return out;
  };
  for (const int64_t window : {0, 4}) {
    const Outcome alone = learned(0, 2, window), shared = learned(240, 2, window), one = learned(240, 1, window);
    ASSERT_GT(alone.step.policy.mixed.value(), 0);
    EXPECT_EQ(shared.step.policy.ratio_deviation, 0);
    EXPECT_EQ(shared.step.policy.reward, alone.step.policy.reward);
    EXPECT_EQ(shared.step.policy.entropy, alone.step.policy.entropy);
    EXPECT_EQ(one.weights, shared.weights);
    // A prompt of 12 tokens and 6 answers of 5 take 11 + 6 * 5 places instead of 6 * 16.
    EXPECT_LT(shared.step.windows.inputs.size(), alone.step.windows.inputs.size());
    EXPECT_NEAR(*shared.result.grad_norm, *alone.result.grad_norm, 1e-5 * *alone.result.grad_norm);
    // A rounding of f32 in each of the hundreds of terms of a sum.
    double most = 0, difference = 0;
    const auto device = make_test_device(1);
    const Model before = byte_model(*device);
    size_t at = 0;
    for (const TensorSpec& t : trained_tensors(before.spec))
      for (const float v : before.params->read(t.name)) {
        most = std::max(most, std::abs(double(alone.weights[at]) - double(v)));
        difference = std::max(difference, std::abs(double(alone.weights[at]) - double(shared.weights[at])));
        ++at;
      }
    EXPECT_GT(most, 1e-4);
    EXPECT_LT(difference, 512 * 0x1p-24 * most + 0x1p-24);
  }
}

}  // namespace
}  // namespace toy::rollouts_test

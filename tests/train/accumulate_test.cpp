// Gradients summed over several batches against those of one batch that holds them all.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/train/trainer.h"
#include "train_testing.h"

namespace toy::accumulate_test {
namespace {

using testing::bare;
using testing::Gradient;

ModelSpec spec() {
  return testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 24, .context = 64, .tied = false, .heads = 3, .kv_heads = 1, .d_head = 8, .d_ff = 40});
}

Windows windows(int64_t first, int64_t count, int64_t tokens) {
  Windows w;
  const Philox random(5, "accumulate");
  for (int64_t i = first * tokens; i < (first + count) * tokens; ++i) {
    w.inputs.push_back(int32_t(random.below(uint64_t(2 * i), 61)));
    w.targets.push_back(int32_t(random.below(uint64_t(2 * i + 1), 61)));
  }
  return w;
}

Gradient gradient(const TrainerOptions& options, const Windows& w, int threads = 2) {
  return testing::gradient(*make_test_device(threads), spec(), options, w);
}

// Windows of one token, so that a sequence is one row and the gradient of each row alone can be had: g_i, exactly 4
// times its share in a batch of 4 (a power of two scales exactly). A gradient is then a sum of 4 known terms, each the
// product of two numbers, rounded or not: any order of 4 terms is within (4 - 1 + 1) u sum |g_i| of the exact sum, so
// two are within 8 u sum |g_i| of each other.
TEST(Accumulate, FourBatchesOfOneAreABatchOfFour) {
  const Gradient batch = gradient(bare(4, 1), windows(0, 4, 1)), sum = gradient(bare(1, 1, 4), windows(0, 4, 1));
  std::vector<Gradient> rows;
  for (int64_t i = 0; i < 4; ++i) rows.push_back(gradient(bare(1, 1), windows(i, 1, 1)));
  for (const auto& [name, g] : batch.of)
    for (size_t i = 0; i < g.size(); ++i) {
      double magnitude = 0;
      for (const Gradient& r : rows) magnitude += std::abs(r.of.at(name)[i]) / 4;
      ASSERT_LE(std::abs(g[i] - sum.of.at(name)[i]), 8 * 0x1p-24 * magnitude + 0x1p-126) << name << " " << i;
    }
  EXPECT_NEAR(sum.loss, batch.loss, 8 * 0x1p-24 * batch.loss);
}

// Rows see only earlier ones, so windows whose second halves count in no loss are windows of half the tokens; also
// where batches of a step have different numbers of targets. In f64; the order of sums differs.
TEST(Accumulate, NegativeTargetsCountInNoLoss) {
  Windows half, masked;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t counted = i < 2 ? 4 : 8;
    Windows w = windows(i, 1, 8);
    half.inputs.insert(half.inputs.end(), w.inputs.begin(), w.inputs.begin() + counted);
    half.targets.insert(half.targets.end(), w.targets.begin(), w.targets.begin() + counted);
    for (int64_t t = 0; t < 8; ++t) {
      masked.inputs.push_back(w.inputs[size_t(t)]);
      masked.targets.push_back(t < counted ? w.targets[size_t(t)] : -1);
      if (t >= counted) continue;
      half.sequence.push_back(int32_t(i)), half.position.push_back(int32_t(t));
    }
  }
  const auto device = make_reference_device();
  const Gradient want = testing::gradient(*device, spec(), bare(1, 24), half);  // four sequences in one row
  for (const int64_t accumulate : {1, 2, 4}) {
    const Gradient got = testing::gradient(*device, spec(), bare(4 / accumulate, 8, accumulate), masked);
    EXPECT_NEAR(got.loss, want.loss, 1e-6 * want.loss) << accumulate;
    for (const auto& [name, g] : want.of) {
      float top = 0;
      for (const float x : g) top = std::max(top, std::abs(x));
      for (size_t i = 0; i < g.size(); ++i)
        ASSERT_NEAR(got.of.at(name)[i], g[i], 64 * 0x1p-24 * top) << name << " " << i;
    }
  }
}

TEST(Accumulate, ABatchWithoutATargetIsRefused) {
  Windows none = windows(0, 2, 8);
  none.targets.assign(none.targets.size(), -1);
  EXPECT_THROW(gradient(bare(2, 8), none), Error);
}

// Longer windows, on a device that computes in f64: what is left are roundings of its own, far below f32's. The
// yardstick is that of whole models (docs/numerics.md): 64 roundings of the largest element.
TEST(Accumulate, LongerWindowsOnTheReference) {
  const auto velocities = [](int64_t batch, int64_t accumulate) {
    return testing::gradient(*make_reference_device(), spec(), bare(batch, 7, accumulate), windows(0, 4, 7)).of;
  };
  const auto batch = velocities(4, 1);
  for (const auto& [b, a] : {std::pair<int64_t, int64_t>{1, 4}, {2, 2}}) {
    const auto sum = velocities(b, a);
    for (const auto& [name, g] : batch) {
      double largest = 0;
      for (const double x : g) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < g.size(); ++i)
        ASSERT_LE(std::abs(g[i] - sum.at(name)[i]), 64 * 0x1p-53 * largest) << name << " " << i;
    }
  }
}

TEST(Accumulate, SameBitsForAnyThreads) {
  const Gradient one = gradient(bare(2, 5, 3), windows(0, 6, 5), 1);
  for (const int threads : {2, 3}) {
    const Gradient g = gradient(bare(2, 5, 3), windows(0, 6, 5), threads);
    EXPECT_EQ(g.of, one.of) << threads;
    EXPECT_EQ(g.loss, one.loss);
    EXPECT_EQ(g.norm, one.norm);
  }
}

// The accumulators begin at zero in every step, after a step that was skipped too.
TEST(Accumulate, ASkippedStepLeavesNothingBehind) {
  const auto device = make_test_device(2);
  const auto after = [&](bool poisoned) {
    Model model = random_model(spec(), *device, 9);
    Trainer trainer(*device, model, {.batch = 1, .tokens = 5, .accumulate = 3});
    if (poisoned) {
      const std::string name = "blk.0.ffn_up.weight";
      const std::vector<float> before = model.params->read(name);
      std::vector<float> bad = before;
      bad[3] = std::nanf("");
      model.params->write(name, bad);
      EXPECT_TRUE(trainer.step(windows(9, 3, 5), 1e-3).skipped);
      model.params->write(name, before);
    }
    EXPECT_FALSE(trainer.step(windows(0, 3, 5), 1e-3).skipped);
    EXPECT_EQ(trainer.updates(), 1);
    return model.params->read("blk.1.attn_q.weight");
  };
  EXPECT_EQ(after(true), after(false));
}

TEST(Accumulate, MemoryIsThatOfASmallBatchAndCountsTheAccumulators) {
  const auto device = make_test_device(1);
  Model model = random_model(spec(), *device, 9);
  const auto planned = [&](int64_t batch, int64_t accumulate) {
    return Trainer(*device, model, {.batch = batch, .tokens = 32, .accumulate = accumulate}).planned_bytes();
  };
  EXPECT_LT(planned(1, 16), planned(16, 1));
  const Trainer t(*device, model, {.batch = 1, .tokens = 32, .accumulate = 2});
  EXPECT_GE(t.planned_bytes(), t.plan().arena_bytes + model.params->bytes() * 2 + t.moments().bytes());
  EXPECT_EQ(planned(1, 2), planned(1, 16));
}

TEST(Accumulate, BadOptions) {
  const auto device = make_test_device(1);
  Model model = random_model(spec(), *device, 9);
  EXPECT_THROW(Trainer(*device, model, {.batch = 1, .tokens = 4, .accumulate = 0}), Error);
  TrainerOptions streaming{.batch = 1, .tokens = 4, .accumulate = 2, .updates = TrainerOptions::streaming};
  streaming.optimizer.clip = 0;
  EXPECT_THROW(Trainer(*device, model, streaming), Error);
  Trainer t(*device, model, {.batch = 1, .tokens = 4, .accumulate = 2});
  EXPECT_THROW(t.step(windows(0, 1, 4), 1e-3), Error);
}

}  // namespace
}  // namespace toy::accumulate_test

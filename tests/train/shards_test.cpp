// A step whose rows are cut into shards: what is added to what.
#include <gtest/gtest.h>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/train/trainer.h"
#include "train/gradient_sums.h"
#include "train_testing.h"

namespace toy::shards_test {
namespace {

using testing::bare;
using testing::Gradient;
using testing::walk;

constexpr int64_t kTokens = 5;

Windows rows(int64_t first, int64_t count) {
  static const auto ids = walk(4000);
  return WindowSampler(ids, 1, kTokens, 1).windows(first, count);
}

TrainerOptions sharded(int64_t batch, int64_t accumulate, int64_t shards) {
  TrainerOptions o = bare(batch, kTokens, accumulate);
  o.shards = shards;
  return o;
}

Gradient gradient(const TrainerOptions& options, const Windows& w, int threads = 2) {
  return testing::gradient(*make_test_device(threads), testing::odd_spec(true), options, w);
}

// The definition: m subtrees of 2^k terms, in plain recursion.
float tree(const std::vector<float>& terms, size_t begin, size_t count) {
  if (count == 1) return terms[begin];
  return tree(terms, begin, count / 2) + tree(terms, begin + count / 2, count / 2);
}
float tree_sum(const std::vector<float>& terms) {
  size_t power = 1;
  while (terms.size() % (2 * power) == 0) power *= 2;
  float sum = tree(terms, 0, power);
  for (size_t at = power; at < terms.size(); at += power) sum += tree(terms, at, power);
  return sum;
}

// A shard's gradient is that of a step of its rows alone, with a weight of 1/S for 1/1: a power of two scales exactly,
// and for other numbers of shards the weight of a target is rounded to float once, as here.
TEST(Shards, TheGradientIsTheTreeOfTheShards) {
  for (const int64_t shards : {2, 4, 8, 16}) {
    const Gradient all = gradient(sharded(shards * 2, 2, shards), rows(0, shards * 4));
    std::vector<Gradient> each;
    for (int64_t s = 0; s < shards; ++s) each.push_back(gradient(sharded(2, 2, 1), rows(s * 4, 4)));
    for (const auto& [name, g] : all.of)
      for (size_t i = 0; i < g.size(); ++i) {
        std::vector<float> terms;
        for (const Gradient& e : each) terms.push_back(float(e.of.at(name)[i]) / float(shards));
        ASSERT_EQ(float(g[i]), tree_sum(terms)) << shards << " shards, " << name << " " << i;
      }
  }
}

// Any number of terms against the definition, through a model with one weight per row would need another graph; the
// order is that of GradientSums::add(), which three subtrees and one take.
TEST(Shards, TreesOfOddNumbers) {
  for (const int64_t n : {1, 2, 3, 5, 6, 7, 12}) {
    const SumTree t(n);
    EXPECT_EQ(t.subtrees << t.depth, n);
    EXPECT_EQ(t.subtrees % 2, 1);
  }
  const auto device = make_reference_device();  // sums in f64: the order hardly matters, only that nothing is missing
  for (const int64_t shards : {3, 6, 12}) {
    const auto got = testing::gradient(*device, testing::odd_spec(true), sharded(shards, 1, shards), rows(0, shards));
    const auto want = testing::gradient(*device, testing::odd_spec(true), sharded(shards, 1, 1), rows(0, shards));
    for (const auto& [name, g] : want.of) {
      double largest = 0;
      for (const double x : g) largest = std::max(largest, std::abs(x));
      for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(got.of.at(name)[i], g[i], 64 * 0x1p-53 * largest) << name;
    }
  }
}

TEST(Shards, SameBitsForAnyThreadsAndFromStepToStep) {
  const auto weights = [](int threads) {
    const auto device = make_test_device(threads);
    Model model = random_model(testing::odd_spec(true), *device, 9);
    TrainerOptions o{.batch = 6, .tokens = kTokens, .accumulate = 2, .shards = 6};
    o.dropout = 0.1;
    Trainer trainer(*device, model, o);
    for (int i = 0; i < 3; ++i) trainer.step(rows(i * 12, 12), 1e-2);
    return model.params->read("blk.1.attn_q.weight");
  };
  EXPECT_EQ(weights(1), weights(2));
  EXPECT_EQ(weights(1), weights(3));
}

// Rows of a validation do not depend on their batch, so shards change no bit of its loss.
TEST(Shards, ValidationIsTheSame) {
  const auto ids = walk(300);
  const auto loss = [&](int64_t shards) {
    const auto device = make_test_device(2);
    Model model = random_model(testing::odd_spec(true), *device, 9);
    Trainer trainer(*device, model, sharded(4, 1, shards));
    return trainer.evaluate(ids).nats;
  };
  EXPECT_EQ(loss(1), loss(2));
  EXPECT_EQ(loss(1), loss(4));
}

TEST(Shards, MemoryCountsThePartialSums) {
  const auto device = make_test_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  const auto planned = [&](int64_t shards) { return Trainer(*device, model, sharded(16, 2, shards)).planned_bytes(); };
  // The same pass, with the gradients of one more level.
  const auto passes_of_one = [&](int64_t shards) {
    return Trainer(*device, model, sharded(shards, 2, shards)).planned_bytes();
  };
  EXPECT_EQ(passes_of_one(8) - passes_of_one(4), passes_of_one(4) - passes_of_one(2));
  EXPECT_GE(passes_of_one(4) - passes_of_one(2), model.params->bytes() * 9 / 10);
  EXPECT_GT(planned(1), passes_of_one(1));
}

TEST(Shards, BadOptions) {
  const auto device = make_test_device(1);
  Model model = random_model(testing::odd_spec(true), *device, 9);
  const auto message = [&](TrainerOptions o) {
    try {
      const Trainer trainer(*device, model, o);
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(message(sharded(6, 1, 4)).find("use --batch 8"), std::string::npos);
  EXPECT_NE(message(sharded(6, 1, 0)).find("shards"), std::string::npos);
  TrainerOptions streaming = sharded(4, 1, 2);
  streaming.updates = TrainerOptions::streaming;
  EXPECT_NE(message(streaming).find("leave out --update"), std::string::npos);
}

}  // namespace
}  // namespace toy::shards_test

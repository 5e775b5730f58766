// Sequences of one batch with different adapters: each has the bits that it has alone.
#include <gtest/gtest.h>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/scheduler.h"
#include "toy/models/adapter.h"

namespace toy {
namespace {

using testing::all_logits;
using testing::same_bits;

ModelSpec base_spec(bool experts) {
  ModelSpec s = testing::small_model(
      "tiny", {.vocab = 61, .d_model = 40, .context = 300, .heads = 4, .kv_heads = 2, .d_head = 10, .d_ff = 52});
  for (LayerSpec& l : s.layers)
    if (experts) l.experts.count = 4, l.experts.used = 2;
  return s;
}

// The base with those of two adapters that `which` names; each has other targets, another rank and scale.
Model adapted(const Device& device, bool experts, const std::vector<int>& which) {
  Model model = random_model(base_spec(experts), device, 3, 2.0);
  for (const int w : which) {
    const LoraOptions options = w == 0 ? LoraOptions{.rank = 3, .alpha = 6}
                                       : LoraOptions{.rank = 5, .alpha = 7, .targets = {"attn_*", "blk.1.*"}};
    model.spec.adapters.push_back(lora_adapter(model.spec, options));
    const size_t number = model.spec.adapters.size() - 1;
    for (const TensorSpec& t : tensors_of(model.spec)) {
      if (t.adapter != int(number)) continue;
      // The same numbers whatever number the adapter has in this model.
      const std::string name = t.name.substr(0, t.name.find(".lora_") + 7) + (w == 0 ? "" : ".other");
      const Philox random(11 + uint64_t(w), name);
      std::vector<float> values(size_t(t.shape.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(0.3 * random.normal(i));
      model.params->add(t.name, {DType::f32, t.shape, 0});
      model.params->write(t.name, values);
    }
  }
  return model;
}

class Adapters : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<float> logits(const Model& model) {
    Decoder d(*device_, model, {});
    return all_logits(d, 0, ids_, 7);
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  std::vector<int32_t> ids_ = testing::random_ids(40, 61, Philox(7, "ids"));
};

// Rows side by side: the base, each adapter, both.
TEST_P(Adapters, EachSequenceHasTheBitsOfItsOwnModel) {
  const Model both = adapted(*device_, GetParam(), {0, 1});
  const std::vector<std::vector<float>> factors{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {}, {0.5f, -2}};
  Decoder d(*device_, both, {.sequences = int(factors.size()), .adapters_by_sequence = true});
  for (size_t s = 0; s < factors.size(); ++s) d.use_adapters(int(s), factors[s]);
  std::vector<std::vector<float>> got(factors.size());
  for (const int32_t id : ids_) {
    std::vector<DecodeRow> rows;
    for (size_t s = 0; s < factors.size(); ++s) rows.push_back({int(s), id, true});
    d.decode(rows);
    for (size_t s = 0; s < factors.size(); ++s) got[s].insert(got[s].end(), d.logits(s).begin(), d.logits(s).end());
  }
  EXPECT_TRUE(same_bits(got[0], logits(adapted(*device_, GetParam(), {}))));
  EXPECT_TRUE(same_bits(got[1], logits(adapted(*device_, GetParam(), {0}))));
  EXPECT_TRUE(same_bits(got[2], logits(adapted(*device_, GetParam(), {1}))));
  EXPECT_TRUE(same_bits(got[3], logits(both)));
  EXPECT_TRUE(same_bits(got[4], got[3]));
  Decoder alone(*device_, both, {.adapters_by_sequence = true});
  alone.use_adapters(0, factors[5]);
  EXPECT_TRUE(same_bits(got[5], all_logits(alone, 0, ids_, 40)));
  for (size_t a = 0; a < got.size(); ++a)
    for (size_t b = a + 1; b < got.size(); ++b) EXPECT_EQ(same_bits(got[a], got[b]), a == 3 && b == 4) << a << " " << b;
}

// Requests with the same long prompt and other adapters must not share what was computed of it.
TEST_P(Adapters, RequestsOfASchedulerHaveTheirOwn) {
  const Model both = adapted(*device_, GetParam(), {0, 1});
  const std::vector<int32_t> prompt = testing::random_ids(150, 61, Philox(9, "prompt"));
  const std::vector<std::vector<float>> factors{{1, 0}, {0, 0}, {1, 0}, {}, {0, 1}, {0, 1}, {1, 0}};
  const auto run = [&](int sequences, const std::vector<std::vector<float>>& list, int64_t* shared) {
    Decoder d(*device_, both, {.sequences = sequences, .adapters_by_sequence = true});
    Scheduler scheduler(d);
    std::vector<Generated> results(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      GenerateRequest r{.prompt = prompt, .eos = {}, .options = {.max_tokens = 12}, .adapters = list[i]};
      r.on_done = [&results, i](const Generated& g) { results[i] = g; };
      scheduler.add(std::move(r));
    }
    scheduler.run();
    if (shared) *shared = scheduler.shared_tokens();
    return results;
  };
  int64_t shared = 0;
  const auto together = run(3, factors, &shared);
  EXPECT_GT(shared, 0);  // those with equal factors
  for (size_t i = 0; i < factors.size(); ++i) {
    const Generated alone = run(1, {factors[i]}, nullptr)[0];
    ASSERT_EQ(together[i].tokens.size(), 12u);
    for (size_t t = 0; t < 12; ++t) {
      EXPECT_EQ(together[i].tokens[t].chosen.id, alone.tokens[t].chosen.id) << i << " " << t;
      EXPECT_EQ(together[i].tokens[t].chosen.logprob, alone.tokens[t].chosen.logprob) << i << " " << t;
    }
  }
  EXPECT_NE(together[0].tokens[0].chosen.logprob, together[1].tokens[0].chosen.logprob);
}

INSTANTIATE_TEST_SUITE_P(DenseAndExperts, Adapters, ::testing::Bool());

TEST(AdaptersMisuse, IsRefused) {
  const auto device = make_test_device(1);
  const Model model = adapted(*device, false, {0, 1});
  Decoder same(*device, model, {}), other(*device, model, {.adapters_by_sequence = true});
  using testing::expect_contains;
  using testing::message_of;
  expect_contains(message_of([&] { same.use_adapters(0, std::vector<float>{1, 0}); }), "all use the same");
  expect_contains(message_of([&] { other.use_adapters(0, std::vector<float>{1}); }), "1 factors for 2 adapters");
  expect_contains(message_of([&] { other.use_adapters(1, std::vector<float>{1, 1}); }), "sequence 1 of 1");
  expect_contains(message_of([&] { other.use_adapters(0, std::vector<float>{1, NAN}); }), "a factor is nan");
  Scheduler scheduler(other);
  expect_contains(message_of([&] { scheduler.add({.prompt = {1}, .eos = {}, .options = {}, .adapters = {1}}); }),
                  "1 factors for 2");
}

}  // namespace
}  // namespace toy

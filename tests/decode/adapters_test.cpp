// Sequences of one batch with different adapters: each has the bits that it has alone, with those adapters loaded.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/scheduler.h"
#include "toy/formats/requantize.h"
#include "toy/models/adapter.h"

namespace toy::adapters_test {
namespace {

using testing::all_logits;
using testing::same_bits;

constexpr int64_t kVocab = 61;

struct Case {
  const char* name;
  ModelSpec spec;
  bool dora = false, quantized = false;  // of the second adapter; of the weights
};

ModelSpec llama() {
  return testing::small_model(
      "tiny", {.vocab = kVocab, .d_model = 64, .context = 300, .heads = 4, .kv_heads = 2, .d_head = 16, .d_ff = 96});
}
ModelSpec from(const char* json) { return spec_from_json(nlohmann::json::parse(json), "test"); }

// Attention with and without biases, experts, and what recurrent and latent layers have of linear maps.
std::vector<Case> cases() {
  ModelSpec experts = llama(), biases = llama();
  for (LayerSpec& l : experts.layers) l.experts.count = 4, l.experts.used = 2;
  for (LayerSpec& l : biases.layers) l.bias = {.q = true, .k = true, .v = true, .out = true};
  const ModelSpec kimi = from(R"({"architecture": "kimi-linear", "d_model": 64, "n_layers": 3, "n_heads": 4,
      "d_ff": 96, "vocab": 61, "context": 300, "delta_value_heads": 4, "delta_width": 16, "latent_width": 32,
      "latent_key": 32, "latent_shared_key": 32, "latent_value": 16, "experts": 5, "experts_used": 2,
      "shared_d_ff": 96, "layers": "kda(experts=0,experts_used=0,shared_d_ff=0),mla,kda"})");
  const ModelSpec toy = from(R"({"architecture": "toy", "d_model": 64, "n_layers": 5, "n_heads": 2, "n_kv": 1,
      "d_ff": 96, "vocab": 61, "context": 300, "mamba2_heads": 3, "mamba2_width": 16, "mamba2_state": 20,
      "conv_width": 4, "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 16,
      "layers": "longconv(conv_width=70),attn,mamba2,gdn,conv"})");
  return {{"dense", llama()},
          {"experts", experts},
          {"dense_dora", llama(), true},
          {"biases", biases},
          {"biases_dora", biases, true},
          {"quantized", llama(), false, true},
          {"quantized_dora", llama(), true, true},
          {"qwen35", from(testing::kQwen35), true},
          {"kimi_linear", kimi},
          {"toy", toy, true}};
}

// The base with those of two adapters that `which` names; each has other targets, another rank and scale.
Model adapted(const Device& device, const Case& c, const std::vector<int>& which) {
  Model model = random_model(c.spec, device, 3, 2.0);
  if (c.quantized) {
    const testing::Folder folder;
    save_model(model, folder.path("floats.gguf"));
    gguf::requantize(gguf::File::open(folder.path("floats.gguf")), folder.path("blocks.gguf"), {.mix = "Q8_0"});
    model = load_model(folder.path("blocks.gguf"), device);
  }
  for (const int w : which) {
    LoraOptions options{.rank = 3, .alpha = 6};
    if (w == 0) options.targets = {"all-linear", "output", "token_embd"};
    if (w == 1) options = {.rank = 5, .alpha = 7, .dora = c.dora, .targets = {"attn_output", "attn_q*", "blk.1.*"}};
    if (w == 1 && c.dora) std::erase(options.targets, "blk.1.*");
    if (w == 1 && !c.dora) options.targets.push_back("output");
    model.spec.adapters.push_back(lora_adapter(model.spec, options));
    const size_t number = model.spec.adapters.size() - 1;
    for (auto& [name, map] : model.spec.adapters.back().maps)  // as in a file
      if (map.magnitude == AdapterSpec::Magnitude::trained) map.magnitude = AdapterSpec::Magnitude::constant;
    for (const TensorSpec& t : tensors_of(model.spec)) {
      if (t.adapter != int(number)) continue;
      // The same numbers whatever number the adapter has in this model.
      const size_t kind = t.name.find(".lora_");
      const Philox random(11 + uint64_t(w), t.name.substr(0, kind + 7));
      std::vector<float> values(size_t(t.shape.count()));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = float((t.name[kind + 6] == 'm' ? 2 : 0.3) * random.normal(i));
      model.params->add(t.name, {DType::f32, t.shape, 0});
      model.params->write(t.name, values);
    }
    add_norms(model, number);
  }
  return model;
}

class Adapters : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<float> logits(const Model& model) {
    Decoder d(*device_, model, {});
    return all_logits(d, 0, ids_, 7);
  }
  std::unique_ptr<Device> device_ = make_test_device(2);
  std::vector<int32_t> ids_ = testing::random_ids(40, kVocab, Philox(7, "ids"));
};

// Rows side by side: the base, each adapter, both, and one adapter by half.
TEST_P(Adapters, EachSequenceHasTheBitsOfItsOwnModel) {
  const Model both = adapted(*device_, GetParam(), {0, 1});
  const std::vector<std::vector<float>> factors{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {}, {0.3f, 0}};
  Decoder d(*device_, both, {.sequences = int(factors.size()), .adapters_by_sequence = true});
  for (size_t s = 0; s < factors.size(); ++s) d.use_adapters(int(s), factors[s]);
  std::vector<std::vector<float>> got(factors.size());
  for (size_t at = 0; at < ids_.size(); at += 2) {
    std::vector<DecodeRow> rows;
    for (size_t s = 0; s < factors.size(); ++s)
      for (size_t k = 0; k < 2; ++k) rows.push_back({int(s), ids_[at + k], true});
    d.decode(rows);
    for (size_t i = 0; i < rows.size(); ++i)
      got[i / 2].insert(got[i / 2].end(), d.logits(i).begin(), d.logits(i).end());
  }
  Model half = adapted(*device_, GetParam(), {0});  // as --lora FILE:0.3 loads it
  for (auto& [name, map] : half.spec.adapters[0].maps) map.scale *= 0.3f;
  EXPECT_TRUE(same_bits(got[0], logits(adapted(*device_, GetParam(), {}))));
  EXPECT_TRUE(same_bits(got[1], logits(adapted(*device_, GetParam(), {0}))));
  EXPECT_TRUE(same_bits(got[2], logits(adapted(*device_, GetParam(), {1}))));
  EXPECT_TRUE(same_bits(got[3], logits(both)));
  EXPECT_TRUE(same_bits(got[4], got[3]));
  EXPECT_TRUE(same_bits(got[5], logits(half)));
  for (size_t a = 0; a < got.size(); ++a)
    for (size_t b = a + 1; b < got.size(); ++b) EXPECT_EQ(same_bits(got[a], got[b]), a == 3 && b == 4) << a << " " << b;
}

// Requests with the same long prompt and other adapters must not share what was computed of it: neither while they
// run, nor by pages and snapshots that are found again, nor after they were preempted, nor with proposed tokens.
TEST_P(Adapters, RequestsOfASchedulerHaveTheirOwn) {
  const Model both = adapted(*device_, GetParam(), {0, 1});
  const std::vector<int32_t> prompt = testing::random_ids(150, kVocab, Philox(9, "prompt"));
  const std::vector<std::vector<float>> factors{{1, 0}, {0, 0}, {1, 0}, {}, {0, 1}, {0, 1}, {1, 0}, {0, 0}};
  int64_t shared = 0, preemptions = 0;
  const auto run = [&](const DecoderOptions& options, const std::vector<std::vector<float>>& list, bool proposed) {
    Decoder d(*device_, both, options);
    Scheduler scheduler(d);
    if (proposed) scheduler.speculate({.ngrams = true});
    std::vector<Generated> results(list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      GenerateRequest r{.prompt = prompt, .eos = {}, .options = {.max_tokens = 60}, .adapters = list[i]};
      r.on_done = [&results, i](const Generated& g) { results[i] = g; };
      scheduler.add(std::move(r));
    }
    scheduler.run();
    shared = scheduler.shared_tokens(), preemptions = scheduler.preemptions();
    return results;
  };
  std::vector<Generated> alone;
  for (const auto& f : factors) alone.push_back(run({.adapters_by_sequence = true}, {f}, false)[0]);
  for (const size_t pages : {0, 6, 30}) {
    DecoderOptions options{.sequences = 3, .adapters_by_sequence = true};
    DecodeShape shape = decode_shape(both, options);
    shape.shared_pages = 1;
    const size_t half = kept_state_bytes(both.spec, shape) > 0 ? 2 : 1;  // the other half is for snapshots
    if (pages > 0)
      options.cache = state_bytes(both.spec, shape) + half * (pages - 1) * shared_page_bytes(both.spec, shape);
    const auto together = run(options, factors, pages == 30);
    if (pages == 6 && half == 1) {
      EXPECT_GT(preemptions, 0);
    }
    if (pages != 6) {
      EXPECT_GT(shared, 0) << pages;  // those with equal factors
    }
    for (size_t i = 0; i < factors.size(); ++i) {
      ASSERT_EQ(together[i].tokens.size(), alone[i].tokens.size());
      for (size_t t = 0; t < alone[i].tokens.size(); ++t) {
        EXPECT_EQ(together[i].tokens[t].chosen.id, alone[i].tokens[t].chosen.id) << pages << " " << i << " " << t;
        EXPECT_EQ(together[i].tokens[t].chosen.logprob, alone[i].tokens[t].chosen.logprob) << pages << " " << i;
      }
    }
  }
  EXPECT_NE(alone[0].tokens[0].chosen.logprob, alone[1].tokens[0].chosen.logprob);
}

INSTANTIATE_TEST_SUITE_P(Models, Adapters, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(AdaptersMisuse, IsRefused) {
  const auto device = make_test_device(1);
  const Model model = adapted(*device, {"", llama()}, {0, 1}), dora = adapted(*device, {"", llama(), true}, {0, 1});
  const DecoderOptions by_sequence{.adapters_by_sequence = true};
  Decoder same(*device, model, {}), other(*device, model, by_sequence), magnitudes(*device, dora, by_sequence);
  using testing::expect_contains;
  using testing::message_of;
  expect_contains(message_of([&] { same.use_adapters(0, std::vector<float>{1, 0}); }), "all use the same");
  expect_contains(message_of([&] { other.use_adapters(0, std::vector<float>{1}); }), "1 factors for 2 adapters");
  expect_contains(message_of([&] { other.use_adapters(1, std::vector<float>{1, 1}); }), "sequence 1 of 1");
  expect_contains(message_of([&] { other.use_adapters(0, std::vector<float>{1, NAN}); }), "a factor is nan");
  expect_contains(message_of([&] {
                    magnitudes.use_adapters(0, std::vector<float>{0.5f, 0.5f});
                  }),
                  "adapter 1 has magnitudes");
  Scheduler scheduler(other);
  expect_contains(message_of([&] { scheduler.add({.prompt = {1}, .eos = {}, .options = {}, .adapters = {1}}); }),
                  "1 factors for 2");
}

}  // namespace
}  // namespace toy::adapters_test

// Where logits lie in a device's own memory, texts that few of them decide need only those from there.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "backend/forwarding_device.h"
#include "testing/decoding.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/generate.h"
#include "toy/decode/scheduler.h"

namespace toy::likeliest_test {
namespace {

ModelSpec spec_of() {
  return testing::small_model(
      "tiny",
      {.vocab = 61, .d_model = 40, .context = 100, .layers = 2, .heads = 2, .kv_heads = 2, .d_head = 20, .d_ff = 52});
}

std::vector<GeneratedToken> text_of(Device& device, const Model& model, const GenerateOptions& options) {
  Decoder decoder(device, model, {.context = 64, .max_rows = 8});
  return generate(decoder, 0, testing::random_ids(20, 61, Philox(7, "prompt")), std::span<const int32_t>(), options);
}
std::vector<int32_t> ids_of(const std::vector<GeneratedToken>& text) {
  std::vector<int32_t> ids;
  for (const GeneratedToken& t : text) ids.push_back(t.chosen.id);
  return ids;
}

TEST(Likeliest, IsThatOfTheLogits) {
  ProtectedDevice device(make_cpu_device(1));
  const Model model = random_model(spec_of(), device, 3);
  Decoder decoder(device, model, {.context = 64, .max_rows = 8});
  const std::vector<int32_t> ids = testing::random_ids(21, 61, Philox(7, "prompt"));
  std::vector<DecodeRow> rows;  // of three calls, and some rows want nothing
  for (size_t i = 0; i < ids.size(); ++i) rows.push_back({0, ids[i], i % 4 != 1 && i != 20});
  for (const bool read_first : {false, true}) {
    decoder.state().reset(0);
    decoder.decode(rows);
    ASSERT_EQ(decoder.logits_count(), 15u);
    if (read_first) decoder.logits(0);
    for (size_t i = 0; i < decoder.logits_count(); ++i) {
      const std::optional<int32_t> largest = decoder.largest(i);
      const auto logits = decoder.logits(i);
      EXPECT_EQ(largest, int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
  }
  const auto host = make_cpu_device(1);
  const Model same = random_model(spec_of(), *host, 3);
  Decoder visible(*host, same, {.context = 64, .max_rows = 8});
  visible.decode(rows);
  EXPECT_EQ(visible.largest(0), std::nullopt);
  EXPECT_TRUE(std::ranges::equal(visible.logits(14), decoder.logits(14)));
}

TEST(Likeliest, TextsAreTheSameWithAndWithoutLogprobs) {
  for (const bool own_memory : {false, true}) {
    std::unique_ptr<Device> device = make_cpu_device(1);
    if (own_memory) device = std::make_unique<ProtectedDevice>(std::move(device));
    const Model model = random_model(spec_of(), *device, 3);
    for (const double temperature : {0.0, 0.9}) {
      GenerateOptions options{.max_tokens = 12, .sampler = {.temperature = temperature}};
      const std::vector<GeneratedToken> all = text_of(*device, model, options);
      options.logprobs = false;
      const std::vector<GeneratedToken> ids = text_of(*device, model, options);
      EXPECT_EQ(ids_of(all), ids_of(ids));
      EXPECT_LE(all.front().chosen.logprob, 0);
      EXPECT_TRUE(std::isnan(ids.front().chosen.logprob));
      options.top_logprobs = 2;
      EXPECT_EQ(text_of(*device, model, options).front().chosen.logprob, all.front().chosen.logprob);
    }
  }
}

// Nothing is chosen from logits that are not numbers.
TEST(Likeliest, NaNIsAnError) {
  ProtectedDevice device(make_cpu_device(1));
  Model model = random_model(spec_of(), device, 3);
  std::vector<float> table = model.params->read("token_embd.weight");
  table[5 * size_t(model.spec.d_model)] = NAN;
  model.params->write("token_embd.weight", table);
  Decoder decoder(device, model, {.context = 64});
  decoder.decode(std::vector<DecodeRow>{{0, 1, true}});
  EXPECT_EQ(decoder.largest(0), std::nullopt);
  EXPECT_THROW(text_of(device, model, {.max_tokens = 2, .logprobs = false}), Error);
}

// The k largest, equal ones by id, found by sorting all.
std::pair<std::vector<int32_t>, std::vector<float>> sorted_by_logit(std::span<const float> logits, size_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  ids.resize(std::min(k, ids.size()));
  std::vector<float> values;
  for (const int32_t id : ids) values.push_back(logits[size_t(id)]);
  return {ids, values};
}

TEST(Likeliest, AreThoseOfTheLogits) {
  ProtectedDevice device(make_cpu_device(1));
  for (const int64_t vocab : {61, 64, 300}) {
    ModelSpec spec = spec_of();
    spec.vocab = vocab;
    Model model = random_model(spec, device, 3);
    std::vector<float> table = model.params->read("token_embd.weight");  // the output projection, too: equal logits
    std::copy_n(table.begin(), 40, table.begin() + 50 * 40);
    model.params->write("token_embd.weight", table);
    Decoder decoder(device, model, {.context = 64, .max_rows = 8});
    std::vector<DecodeRow> rows;
    for (int32_t i = 0; i < 21; ++i) rows.push_back({0, 7 * i % 61, i % 4 != 1});
    decoder.decode(rows);
    for (size_t i = 0; i < decoder.logits_count(); ++i) {
      const auto best = decoder.likeliest(i);
      ASSERT_TRUE(best);
      EXPECT_EQ(best->ids.size(), size_t(std::min<int64_t>(vocab, kLikeliest)));
      const auto [ids, logits] = sorted_by_logit(decoder.logits(i), kLikeliest);
      EXPECT_TRUE(std::ranges::equal(best->ids, ids));
      EXPECT_TRUE(std::ranges::equal(best->logits, logits));
    }
  }
}

SamplerOptions chain_of(std::string_view chain) {
  SamplerOptions o{.temperature = 1, .seed = 11};
  set_sampler_chain(o, chain);
  return o;
}
const char* const kDecided[] = {"top_k(40);temperature(0.8)",
                                "temperature(0.9);top_k(64)",
                                "temperature(1.7);top_k(20);top_p(0.9);min_p(0.02)",
                                "top_k(1)",
                                "top_k(33);typ_p(0.7);xtc(probability=0.5,threshold=0.05)",
                                "top_k(50);penalties(repeat=1.3,last_n=20);dry(multiplier=0.8);temperature(range=0.3)",
                                "temperature(1e-40);top_k(5)",
                                "temperature(1e-3);top_k(2)"};

// Whatever the other logits are: many equal ones, some ruled out, fewer than top_k keeps.
TEST(Likeliest, DecideWhatTheSamplerPicks) {
  for (const char* chain : kDecided)
    for (const size_t vocab : {3u, 64u, 65u, 700u, 5000u}) {
      SCOPED_TRACE(chain + std::string(" ") + std::to_string(vocab));
      Sampler all(chain_of(chain)), few(chain_of(chain));
      std::vector<int32_t> history = {1, 2, 1, 2};
      std::set<int32_t> picked;
      for (uint64_t step = 0; step < 60; ++step) {
        const Philox random(step, "logits");
        std::vector<float> logits(vocab);
        for (size_t i = 0; i < vocab; ++i)
          logits[i] = random.below(i, 9) == 0 && i > 0 ? -INFINITY
                      : step % 2                       ? float(random.below(2 * i, 30)) / 4
                                                       : float(9 * random.uniform(i));
        ASSERT_GT(few.decided_by(history), 0);
        ASSERT_LE(few.decided_by(history), kLikeliest);
        const auto [ids, best] = sorted_by_logit(logits, kLikeliest);
        const int32_t id = all.pick(logits, step, history);
        ASSERT_EQ(few.pick_of(ids, best, step, history), id) << step;
        history.push_back(id);
        picked.insert(id);
      }
      if (few.decided_by(history) > 2 && vocab > 3) {
        EXPECT_GT(picked.size(), 3u);
      }
    }
}

TEST(Likeliest, DoNotDecideWhereOthersCount) {
  const std::vector<int32_t> history = {1};
  for (const char* chain :
       {"temperature(0.8)", "top_p(0.9);top_k(5)", "min_p(0.1);top_k(5)", "temperature(range=0.2);top_k(5)",
        "penalties(repeat=1.2);top_k(5)", "dry(multiplier=0.8);top_k(5)", "top_n_sigma(1);top_k(5)",
        "temperature(1e-300);top_k(5)", "temperature(0.8);mirostat(tau=3)"})
    EXPECT_EQ(Sampler(chain_of(chain)).decided_by(history), 0) << chain;
  SamplerOptions biased = chain_of("top_k(5)");
  biased.logit_bias = {{3, 1.0}};
  EXPECT_EQ(Sampler(biased).decided_by(history), 0);
  EXPECT_EQ(Sampler(SamplerOptions{}).decided_by(history), 1);
  EXPECT_EQ(Sampler(chain_of("penalties(repeat=1.2);top_k(5)")).decided_by({}), 5);
}

// Counts the bytes that the host reads.
class Counting final : public ForwardingDevice {
 public:
  explicit Counting(Device& to) : ForwardingDevice(to) {}
  void download(void* to, Place from, size_t bytes) const override {
    read += bytes;
    ForwardingDevice::download(to, from, bytes);
  }
  mutable size_t read = 0;
};

// Three texts at once, with and without all logits.
TEST(Likeliest, TextsAreTheSameAndReadLess) {
  ProtectedDevice inner(make_cpu_device(1));
  Counting device(inner);
  ModelSpec spec = spec_of();
  spec.vocab = 500;
  const Model model = random_model(spec, device, 3);
  for (const char* chain : kDecided) {
    SCOPED_TRACE(chain);
    std::vector<std::vector<int32_t>> texts[2];
    size_t read[2];
    for (const bool logprobs : {false, true}) {
      Decoder decoder(device, model, {.sequences = 3, .context = 64, .max_rows = 16});
      Scheduler scheduler(decoder);
      texts[logprobs].resize(3);
      for (uint64_t i = 0; i < 3; ++i) {
        GenerateRequest r{.prompt = testing::random_ids(5 + size_t(i), 500, Philox(i, "prompt"))};
        r.options = {.max_tokens = 20, .sampler = chain_of(chain), .logprobs = logprobs};
        r.options.sampler.seed = i + 1;
        r.on_done = [&, i](const Generated& g) { texts[logprobs][i] = ids_of(g.tokens); };
        scheduler.add(std::move(r));
      }
      device.read = 0;
      scheduler.run();
      read[logprobs] = device.read;
    }
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_EQ(texts[0][2].size(), 20u);
    const size_t few = kLikeliest * (sizeof(float) + sizeof(int32_t)) + sizeof(float);  // and the largest
    EXPECT_LE(read[0], 60 * few);
    EXPECT_GE(read[1], 60 * 500 * sizeof(float));
  }
}

}  // namespace
}  // namespace toy::likeliest_test

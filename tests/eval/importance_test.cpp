// Importance matrices: against the mean squares of the values that the layers are named after.
#include "toy/eval/importance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/train/trainer.h"
#include "toy/train/watch.h"

namespace toy::importance_test {
namespace {

constexpr int64_t kChunk = 16;

ModelSpec small_spec(const std::string& size, bool tied) {
  return testing::small_model(size, {.vocab = 61,
                                     .d_model = 24,
                                     .context = 64,
                                     .tied = tied,
                                     .heads = 4,
                                     .kv_heads = size == "tiny" ? 2 : 4,
                                     .d_head = 6,
                                     .d_ff = 40});
}

std::vector<int32_t> some_tokens(size_t n) { return testing::random_ids(n, 61, Philox(3, "text")); }

// Mean square of each column of a value of the graph of the loss, over the chunks.
std::vector<double> mean_squares(const Model& model, const std::string& name, std::span<const int32_t> tokens) {
  const auto device = make_reference_device();  // as the model's
  const LossGraph l = build_loss_graph(
      model.spec, [](const std::string&) { return DType::f32; }, 1, kChunk);
  std::optional<Value> found = l.graph->find(name);
  std::string names;
  for (const auto& [known, value] : named_values(*l.graph)) {
    names += known + " ";
    if (known == name) found = value;
  }
  if (!found) throw std::runtime_error(name + " is none of " + names);
  const Value tap = *found;
  Session session(*device, std::make_shared<const Plan>(compile(*l.graph, std::vector{tap}, {}, *device)),
                  {model.params.get()});
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < kChunk; ++i) positions.push_back(i);
  session.set("sequence", std::vector<int32_t>(kChunk, 0));
  session.set("position", positions);
  const int64_t chunks = int64_t(tokens.size()) / kChunk;
  std::vector<double> result;
  for (int64_t c = 0; c < chunks; ++c) {
    session.set("tokens", tokens.subspan(size_t(c * kChunk), kChunk));
    session.run();
    const std::vector<float> values = session.values(0);
    const size_t width = values.size() / kChunk;
    result.resize(width);
    for (size_t i = 0; i < values.size(); ++i)
      result[i % width] += double(values[i]) * double(values[i]) / double(chunks * kChunk);
  }
  return result;
}

void expect_columns(const gguf::Imatrix& m, const Model& model, std::span<const int32_t> tokens,
                    const std::map<std::string, std::string>& operands) {
  EXPECT_EQ(m.columns.size(), operands.size());
  for (const auto& [tensor, value] : operands) {
    SCOPED_TRACE(tensor);
    ASSERT_TRUE(m.columns.contains(tensor));
    const std::vector<double> expected = mean_squares(model, value, tokens);
    const std::vector<float>& means = m.columns.at(tensor);
    ASSERT_EQ(means.size(), expected.size());
    for (size_t i = 0; i < means.size(); ++i) EXPECT_NEAR(means[i], expected[i], 1e-6 * (1e-3 + expected[i])) << i;
    EXPECT_EQ(m.counts.at(tensor), std::vector<float>{float(int64_t(tokens.size()) / kChunk * kChunk)});
  }
}

TEST(Importance, MeanSquaresOfALlama) {
  const auto device = make_reference_device();
  const Model model = random_model(small_spec("tiny", false), *device, 5);
  const std::vector<int32_t> tokens = some_tokens(3 * kChunk + 5);
  std::vector<std::pair<int64_t, int64_t>> progress;
  const gguf::Imatrix m = measure_importance(*device, model, tokens, kChunk,
                                             [&](int64_t done, int64_t total) { progress.emplace_back(done, total); });
  EXPECT_EQ(progress, (std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 3}, {3, 3}}));
  EXPECT_EQ(m.chunks, 3u);
  EXPECT_EQ(m.chunk_size, uint32_t(kChunk));
  std::map<std::string, std::string> operands{{"output.weight", "x_final"}};
  for (const std::string b : {"blk.0.", "blk.1."}) {
    for (const char* map : {"attn_q", "attn_k", "attn_v"}) operands[b + map + ".weight"] = b + "attn_norm";
    for (const char* map : {"ffn_gate", "ffn_up"}) operands[b + map + ".weight"] = b + "ffn_norm";
    operands[b + "attn_output.weight"] = b + "attention";
    operands[b + "ffn_down.weight"] = b + "swiglu";
  }
  expect_columns(m, model, tokens, operands);
}

// Files of GPT-2 have one tensor for q, k and v.
TEST(Importance, NamesAreThoseOfFiles) {
  const auto device = make_reference_device();
  const Model model = random_model(small_spec("gpt2-tiny", true), *device, 5);
  const std::vector<int32_t> tokens = some_tokens(2 * kChunk);
  const gguf::Imatrix m = measure_importance(*device, model, tokens, kChunk);
  std::map<std::string, std::string> operands{{"token_embd.weight", "x_final"}};
  for (const std::string b : {"blk.0.", "blk.1."}) {
    operands[b + "attn_qkv.weight"] = b + "attn_norm";
    operands[b + "attn_output.weight"] = b + "attention";
    operands[b + "ffn_up.weight"] = b + "ffn_norm";
    operands[b + "ffn_down.weight"] = b + "gelu_tanh";
  }
  expect_columns(m, model, tokens, operands);
}

TEST(Importance, ExpertsCountTheirOwnRows) {
  const auto device = make_reference_device();
  const std::vector<int32_t> tokens = some_tokens(2 * kChunk);
  constexpr size_t kExperts = 4, kRows = 2 * kChunk;
  for (const size_t used : {size_t(1), kExperts}) {
    ModelSpec spec = small_spec("tiny", true);
    for (LayerSpec& l : spec.layers) l.experts = {.count = int64_t(kExperts), .used = int64_t(used)};
    const Model model = random_model(spec, *device, 5);
    const gguf::Imatrix m = measure_importance(*device, model, tokens, kChunk);
    EXPECT_TRUE(m.columns.contains("blk.1.ffn_down_exps.weight"));
    const std::vector<double> all = mean_squares(model, "blk.0.ffn_norm", tokens);
    const std::vector<float>& means = m.columns.at("blk.0.ffn_up_exps.weight");
    const std::vector<float>& counts = m.counts.at("blk.0.ffn_up_exps.weight");
    EXPECT_EQ(m.columns.at("blk.0.ffn_gate_exps.weight"), means);
    ASSERT_EQ(counts.size(), kExperts);
    ASSERT_EQ(means.size(), kExperts * all.size());
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0f), float(used * kRows));
    for (size_t i = 0; i < all.size(); ++i) {
      double squares = 0;
      for (size_t e = 0; e < kExperts; ++e) squares += double(counts[e]) * double(means[e * all.size() + i]);
      const double expected = double(used * kRows) * all[i];
      EXPECT_NEAR(squares, expected, 1e-6 * (1e-3 + expected)) << fmt::format("column {}, {} used", i, used);
      if (used == kExperts) {
        for (size_t e = 0; e < kExperts; ++e)
          EXPECT_NEAR(means[e * all.size() + i], all[i], 1e-6 * (1e-3 + all[i])) << fmt::format("expert {}", e);
      }
    }
  }
}

TEST(Importance, TheSameForAnyNumberOfThreadsAndShortTexts) {
  const std::vector<int32_t> tokens = some_tokens(40);
  std::vector<gguf::Imatrix> all;
  for (const int threads : {1, 3}) {
    const auto device = make_test_device(threads);
    const Model model = random_model(small_spec("tiny", true), *device, 9);
    all.push_back(measure_importance(*device, model, tokens, kChunk));
    EXPECT_EQ(measure_importance(*device, model, tokens, 64).chunk_size, 40u);  // one chunk
    EXPECT_EQ(measure_importance(*device, model, tokens, 1).chunks, 40u);
  }
  EXPECT_EQ(all[0].columns, all[1].columns);
}

TEST(Importance, BadInput) {
  const auto device = make_test_device(1);
  const Model model = random_model(small_spec("tiny", true), *device, 9);
  const auto error = [&](const std::vector<int32_t>& tokens, int64_t chunk) {
    return testing::error_of([&] { measure_importance(*device, model, tokens, chunk); });
  };
  testing::expect_contains(error({}, 16), "the text has no tokens");
  testing::expect_contains(error({1, 2}, 0), "chunks of 0 tokens");
  testing::expect_contains(error({1, 61}, 2), "61");
  Model broken = random_model(small_spec("tiny", true), *device, 9);
  const float nan = NAN;
  std::vector<float> gain = broken.params->read("blk.0.attn_norm.weight");
  gain[3] = nan;
  broken.params->write("blk.0.attn_norm.weight", gain);
  testing::expect_contains(testing::error_of([&] { measure_importance(*device, broken, some_tokens(4), 4); }),
                           "an activation is not finite");
}

}  // namespace
}  // namespace toy::importance_test

// Two readings of a text: against plain sums in f64, against weights that are 0, and what cannot be compared.
#include "toy/look/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "look/parts.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/hybrids.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/json_text.h"

namespace toy::compare_test {
namespace {

using nlohmann::json;
using testing::expect_contains;
using testing::GoldenFamily;
using testing::message_of;

constexpr int64_t kVocab = 31, kWidth = 16, kLayers = 3, kTokens = 11;

ModelSpec spec_of(const std::string& name = "tiny") {
  return testing::small_model(name, {.vocab = kVocab,
                                     .d_model = kWidth,
                                     .context = 32,
                                     .layers = kLayers,
                                     .heads = 2,
                                     .kv_heads = 1,
                                     .d_head = 8,
                                     .d_ff = 24});
}

// log softmax of E norm(x), in f64: what the lens of a tied model is.
std::vector<double> log_lens(const Model& model, const float* x) {
  const std::vector<float> gain = model.params->read("output_norm.weight"), e = model.params->read("token_embd.weight");
  double squares = 0;
  for (int64_t i = 0; i < kWidth; ++i) squares += double(x[i]) * x[i];
  const double scale = 1 / std::sqrt(squares / double(kWidth) + double(model.spec.norm_eps));
  std::vector<double> z(size_t(kVocab), 0);
  double sum = 0;
  for (int64_t v = 0; v < kVocab; ++v) {
    for (int64_t i = 0; i < kWidth; ++i)
      z[size_t(v)] += double(x[i]) * scale * double(gain[size_t(i)]) * double(e[size_t(v * kWidth + i)]);
    sum += std::exp(z[size_t(v)]);
  }
  for (double& l : z) l -= std::log(sum);
  return z;
}

TEST(Compare, IsThePlainComputation) {
  const auto device = make_reference_device();
  const Model a = random_model(spec_of(), *device, 3), b = random_model(spec_of(), *device, 4);
  ASSERT_TRUE(a.spec.tied);
  const std::vector<int32_t> ids = testing::random_ids(kTokens, kVocab, Philox(1));
  const LookDifference d = compare_looks(*device, {a}, {b}, ids, {.top = 3, .exact = true});
  const looking::Taps ta = looking::run_blocks(*device, a, ids, true, false),
                      tb = looking::run_blocks(*device, b, ids, true, false);
  // The device rounds each logit once to f32 and norms in f32: a log probability is off by some units of 2^-24 times
  // logits below 8, and a divergence by the same.
  constexpr double kTolerance = 64 * 0x1p-24;
  const Look la = look(*device, a, ids, {.exact = true}), lb = look(*device, b, ids, {.exact = true});
  for (size_t point = 0; point <= size_t(kLayers); ++point) {
    const PointDifference& at = point == 0 ? d.embedding : d.layers[point - 1];
    for (size_t t = 0; t < size_t(kTokens); ++t) {
      const float *xa = ta.x[point].data() + t * size_t(kWidth), *xb = tb.x[point].data() + t * size_t(kWidth);
      const std::vector<double> pa = log_lens(a, xa), pb = log_lens(b, xb);
      double kl = 0, difference = 0, length = 0;
      for (size_t v = 0; v < size_t(kVocab); ++v) kl += std::exp(pa[v]) * (pa[v] - pb[v]);
      for (size_t i = 0; i < size_t(kWidth); ++i)
        difference += (double(xa[i]) - double(xb[i])) * (double(xa[i]) - double(xb[i])),
            length += double(xa[i]) * xa[i];
      ASSERT_GT(kl, 1e-4);
      EXPECT_NEAR(at.kl[t], kl, kTolerance) << point << " " << t;
      EXPECT_NEAR(at.rows[t], std::sqrt(difference / length), 1e-12) << point << " " << t;
    }
  }
  for (size_t l = 0; l < size_t(kLayers); ++l)
    for (size_t h = 0; h < 2; ++h)
      for (size_t t = 0; t < size_t(kTokens); ++t) {
        double moved = 0;
        for (size_t j = 0; j <= t; ++j) {
          const size_t at = t * size_t(kTokens) + j;
          moved += std::abs(double(la.layers[l].heads[h].weights[at]) - double(lb.layers[l].heads[h].weights[at])) / 2;
        }
        EXPECT_NEAR(d.layers[l].attention[h][t], moved, 2 * kTokens * 0x1p-24) << l << h << t;
      }
  for (size_t t = 0; t < size_t(kTokens); ++t) {
    if (t + 1 < size_t(kTokens)) {
      EXPECT_EQ(d.before[t].next, la.output(t).next);
    }
    EXPECT_EQ(d.after[t].top[0].id, lb.output(t).top[0].id);
    EXPECT_EQ(d.after[t].kl, d.layers.back().kl[t]);
    EXPECT_EQ(d.before[t].top.size(), 3u);
  }
  double loss = 0;
  for (size_t t = 0; t + 1 < size_t(kTokens); ++t) loss -= std::log(la.output(t).next) / double(kTokens - 1);
  EXPECT_DOUBLE_EQ(d.loss(d.before), loss);
}

TEST(Compare, AModelWithItselfDiffersInNothing) {
  const auto device = make_test_device(2);
  const Model a = random_model(spec_from_json(json::parse(testing::kQwen35), "test"), *device, 3);
  const LookDifference d = compare_looks(*device, {a}, {a}, testing::random_ids(20, 61, Philox(4)));
  for (const LayerDifference& l : d.layers) {
    for (const double v : l.kl) EXPECT_EQ(v, 0);
    for (const double v : l.rows) EXPECT_EQ(v, 0);
    for (const auto& head : l.attention)
      for (const double v : head) EXPECT_EQ(v, 0);
  }
  const json j = json::parse(json_text(to_json(d, nullptr)));
  EXPECT_EQ(j.at("loss").at("before"), j.at("loss").at("after"));
  EXPECT_EQ(j.at("layers")[3].at("attention").size(), 4u);
}

// Embeddings of zeros: what is new there is all of it, and no number is infinite.
TEST(Compare, RowsOfZerosHaveADistance) {
  const auto device = make_test_device(1);
  Model a = random_model(spec_of(), *device, 3);
  const Model b = random_model(spec_of(), *device, 4);
  a.params->write("token_embd.weight", std::vector<float>(size_t(kVocab * kWidth)));
  const std::vector<int32_t> ids = testing::random_ids(kTokens, kVocab, Philox(1));
  for (const double row : compare_looks(*device, {a}, {b}, ids).embedding.rows) EXPECT_EQ(row, 1);
  for (const double row : compare_looks(*device, {a}, {a}, ids).embedding.rows) EXPECT_EQ(row, 0);
}

// ---- heads

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TOY_SOURCE_DIR) + "/tests/golden"))
    if (const std::string name = file.path().filename(), ending = ".family.gguf"; name.ends_with(ending))
      names.push_back(name.substr(0, name.size() - ending.size()));
  std::sort(names.begin(), names.end());
  return names;
}

class Ablation : public ::testing::TestWithParam<std::string> {};

// A head whose output is 0 is one that the output map has no weights for. Products with 0 change no sum.
TEST_P(Ablation, IsThatOfAMapWithoutTheHead) {
  const GoldenFamily family(GetParam());
  const auto device = make_test_device(2);
  const Model model = load_model(family.write(), *device, LoadMode::trainable);
  Model mapped = load_model(family.write(), *device, LoadMode::trainable);
  size_t l = 0;
  while (l < model.spec.layers.size() && model.spec.layers[l].mixer != MixerKind::attention) ++l;
  if (l == model.spec.layers.size() || model.spec.layers[l].differential) GTEST_SKIP() << "no such attention";
  const LayerSpec& layer = model.spec.layers[l];
  const int64_t head = layer.heads - 1, inner = layer.heads * layer.d_head;
  const std::string name = "blk." + std::to_string(l) + ".attn_output.weight";
  std::vector<float> w = mapped.params->read(name);
  for (size_t i = 0; i < w.size(); ++i)
    if (int64_t(i) % inner / layer.d_head == head) w[i] = 0;
  mapped.params->write(name, w);
  const std::vector<int32_t> ids(family.ids.begin(), family.ids.begin() + 24);
  const LookDifference d = compare_looks(*device, {model}, {model, {{int64_t(l), head}}}, ids, {.exact = true});
  const LookDifference want = compare_looks(*device, {model}, {mapped}, ids, {.exact = true});
  for (size_t i = 0; i < d.layers.size(); ++i) {
    EXPECT_EQ(d.layers[i].kl, want.layers[i].kl) << i;
    EXPECT_EQ(d.layers[i].rows, want.layers[i].rows) << i;
    EXPECT_EQ(d.layers[i].attention, want.layers[i].attention) << i;
    for (const double v : d.layers[i].rows) EXPECT_EQ(v > 0, i >= l);
  }
  EXPECT_EQ(d.embedding.rows, std::vector<double>(24, 0));
  EXPECT_EQ(d.layers[l].attention[0], std::vector<double>(24, 0));  // what it looks at is computed before
}

INSTANTIATE_TEST_SUITE_P(All, Ablation, ::testing::ValuesIn(families()),
                         [](const auto& family) { return family.param; });

// Both maps of a pair are gone where both its heads are, so the pair gives 0 as the norm of 0 does.
TEST(Compare, HeadsOfDifferentialAttention) {
  const auto device = make_reference_device();
  const json spec{{"architecture", "toy"}, {"name", "d"},   {"d_model", 32},       {"n_layers", 1},
                  {"n_heads", 8},          {"n_kv", 4},     {"d_head", 8},         {"d_ff", 32},
                  {"vocab", 31},           {"context", 64}, {"differential", true}};
  const Model model = random_model(spec_from_json(spec, "test"), *device, 5);
  const std::vector<int32_t> ids = testing::random_ids(20, 31, Philox(2));
  std::vector<HeadId> all;
  for (int64_t h = 0; h < 8; ++h) all.push_back({0, h});
  const looking::Taps none = looking::run_blocks(*device, model, ids, true, false, all),
                      some = looking::run_blocks(*device, model, ids, true, false, std::span(all).first(7));
  for (const float v : none.added[0][0].values) EXPECT_EQ(v, 0);
  double left = 0;
  for (const float v : some.added[0][0].values) left += std::abs(double(v));
  EXPECT_GT(left, 0);
}

TEST(Compare, HeadsByName) {
  EXPECT_EQ(parse_head("3.1"), (HeadId{3, 1}));
  EXPECT_EQ(parse_head("0.0"), (HeadId{0, 0}));
  for (const char* wrong : {"", "3", "3.", ".1", "-1.0", "3.1.2", "a.b", "3,1"})
    expect_contains(message_of([&] { parse_head(wrong); }), "LAYER.HEAD");
  const auto device = make_reference_device();
  const Model model = random_model(spec_of(), *device, 3);
  const auto refused = [&](HeadId head) {
    return message_of([&] { compare_looks(*device, {model}, {model, {head}}, std::vector<int32_t>{1, 2}); });
  };
  expect_contains(refused({3, 0}), "there is no layer 3; use 0 to 2");
  expect_contains(refused({1, 2}), "layer 1 has no head 2; use 0 to 1");
  const Model mixed = random_model(spec_from_json(json::parse(testing::kQwen35), "test"), *device, 3);
  expect_contains(message_of([&] {
                    compare_looks(*device, {mixed}, {mixed, {{0, 0}}}, std::vector<int32_t>{1, 2});
                  }),
                  "layer 0 has no attention");
}

TEST(Compare, WhatCannotBeCompared) {
  const auto device = make_reference_device();
  const Model model = random_model(spec_of(), *device, 3);
  const auto other = [&](auto change) {
    ModelSpec spec = spec_of();
    change(spec);
    return incomparable(model, random_model(spec, *device, 3));
  };
  EXPECT_EQ(other([](ModelSpec&) {}), "");
  expect_contains(other([](ModelSpec& s) { s.vocab = 30; }), "one has 31 tokens and the other 30");
  expect_contains(other([](ModelSpec& s) { s.layers.pop_back(); }), "one has 3 layers and the other 2");
  expect_contains(other([](ModelSpec& s) { s.layers[1].heads = 1; }), "layer 1 has 2 heads in one and 1 in the other");
  Model bytes = random_model(
      testing::small_model(
          "tiny", {.vocab = 256, .d_model = 16, .context = 32, .heads = 2, .kv_heads = 1, .d_head = 8, .d_ff = 24}),
      *device, 3);
  Model same = random_model(bytes.spec, *device, 3);
  bytes.tokenizer = make_byte_tokenizer();
  expect_contains(incomparable(bytes, same), "tokenizer");
  same.tokenizer = make_byte_tokenizer();
  EXPECT_EQ(incomparable(bytes, same), "");
  expect_contains(message_of([&] { compare_looks(*device, {model}, {same}, std::vector<int32_t>{1}); }),
                  "cannot be compared");
}

TEST(Compare, ThePageHasEverythingInIt) {
  const auto device = make_test_device(2);
  const Model model = random_model(spec_from_json(json::parse(testing::kQwen35), "test"), *device, 3);
  const LookDifference d = compare_looks(*device, {model}, {model, {{3, 1}}}, testing::random_ids(12, 61, Philox(4)));
  const std::string page = to_html(d, nullptr, "</script><b>&", "a", "without 3.1");
  EXPECT_EQ(page.find("://"), page.npos);
  EXPECT_EQ(page.find("src="), page.npos);
  EXPECT_EQ(page.find("@shared"), page.npos);
  for (const char* used : {"$", "make", "word", "percent", "tint", "arrows"})
    EXPECT_NE(page.find(std::string("const ") + used + " = "), page.npos) << used;
  const std::string begin = "const data = ";
  const size_t at = page.find(begin) + begin.size();
  const json data = json::parse(page.substr(at, page.find(";\n", at) - at));
  EXPECT_EQ(data.at("after"), "without 3.1");
  EXPECT_EQ(data.at("layers").size(), 4u);
  EXPECT_EQ(data.at("tokens").size(), 12u);
}

}  // namespace
}  // namespace toy::compare_test

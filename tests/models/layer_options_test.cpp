// Options of layers against loops that state them, and in every way in which a model is run.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/mixers/mixer.h"
#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/runtime/evaluate.h"
#include "toy/train/trainer.h"

namespace toy::layer_options_test {
namespace {

// Rows of two sequences; H query heads in groups of G for each of K kv heads; a head is P wide.
constexpr int64_t kRows = 9, kFirst = 5, kD = 12, kK = 4, kG = 2, kH = kK * kG, kP = 4;
constexpr double kEps = 1e-6;

// Of a tensor; exact in f32.
std::vector<double> numbers(const std::string& name, int64_t n) {
  const Philox random(5, name);
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(double(float(random.normal(uint64_t(i)))));
  return v;
}

nn::Context context(Graph& g) {
  std::vector<double> sequence, position;
  for (int64_t n = 0; n < kRows; ++n)
    sequence.push_back(n < kFirst ? 0 : 1), position.push_back(double(n < kFirst ? n : n - kFirst));
  return {.batch = {.sequence = g.constant({DType::i32, {kRows}, 0}, sequence),
                    .position = g.constant({DType::i32, {kRows}, 0}, position)}};
}

// What the mixer of a layer returns for the rows "x", whatever number the layer has.
std::vector<double> output_of(const LayerSpec& l, size_t layer = 0) {
  ModelSpec m;
  m.d_model = kD, m.norm_eps = float(kEps), m.layers.assign(layer + 1, l);
  Graph g;
  const Weights weights(g, [](const std::string&) { return DType::f32; });
  RopeTables ropes(g, m, 0);
  const std::optional<nn::Mixer> mixer = make_mixer(m, layer, weights, ropes);
  Feeds feeds;
  for (const TensorSpec& t : weights.declared()) {
    const std::vector<double> v = numbers(t.name, t.shape.count());
    feeds[t.name] = std::vector<float>(v.begin(), v.end());
  }
  nn::LayerState state;
  const Value x = g.constant({DType::f32, {kRows, kD}, 0}, numbers("x", kRows * kD));
  return evaluate(mixer->call(x, state, context(g)), {.feeds = feeds}).values;
}

LayerSpec attention() { return {.heads = kH, .kv_heads = kK, .d_head = kP, .attention_scale = 0.5f}; }

// y = x w^T.
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& w, int64_t in, int64_t out) {
  std::vector<double> y;
  for (size_t n = 0; n < x.size() / size_t(in); ++n)
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < in; ++i) sum += x[n * size_t(in) + size_t(i)] * w[size_t(o * in + i)];
      y.push_back(sum);
    }
  return y;
}

// Rows, heads and elements of what a map gave.
struct Table {
  std::vector<double> data;
  int64_t heads;
  const double* at(int64_t n, int64_t h) const { return &data[size_t((n * heads + h) * kP)]; }
};

// Softmax weights of a row in one head over the rows that it sees, scores times `factor`.
std::vector<double> weights_of(const Table& q, int64_t qh, const Table& k, int64_t kh, int64_t n, double factor,
                               int64_t window) {
  const int64_t begin = n < kFirst ? 0 : kFirst, first = window > 0 ? std::max(begin, n - window + 1) : begin;
  std::vector<double> w(static_cast<size_t>(kRows));
  double all = 0;
  for (int64_t j = first; j <= n; ++j) {
    double score = 0;
    for (int64_t p = 0; p < kP; ++p) score += q.at(n, qh)[p] * k.at(j, kh)[p];
    all += w[size_t(j)] = std::exp(0.5 * factor * score);
  }
  for (double& x : w) x /= all;
  return w;
}

// What goes into the output map, [N,H P], against what the layer returned.
void expect_output(const std::vector<double>& heads, const char* out, const std::vector<double>& got) {
  const std::vector<double> want = product(heads, numbers(out, kD * kH * kP), kH * kP, kD);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11) << i;
}

TEST(LayerOptions, ScalableSoftmaxIsTheFormula) {
  for (const int64_t window : {0, 3}) {
    LayerSpec l = attention();
    l.window = window, l.softmax = LayerSpec::scalable;
    const std::vector<double> x = numbers("x", kRows * kD), s = numbers("attn_ssmax.weight", kH);
    const Table q{product(x, numbers("attn_q.weight", kH * kP * kD), kD, kH * kP), kH},
        k{product(x, numbers("attn_k.weight", kK * kP * kD), kD, kK * kP), kK},
        v{product(x, numbers("attn_v.weight", kK * kP * kD), kD, kK * kP), kK};
    std::vector<double> heads;
    for (int64_t n = 0; n < kRows; ++n)
      for (int64_t h = 0; h < kH; ++h) {
        const int64_t position = n < kFirst ? n : n - kFirst,
                      seen = window > 0 ? std::min(position + 1, window) : position + 1;
        const auto weights = weights_of(q, h, k, h / kG, n, s[size_t(h)] * std::log(double(seen)), window);
        for (int64_t p = 0; p < kP; ++p) {
          double sum = 0;
          for (int64_t j = 0; j < kRows; ++j) sum += weights[size_t(j)] * v.at(j, h / kG)[p];
          heads.push_back(sum);
        }
      }
    expect_output(heads, "attn_output.weight", output_of(l));
  }
}

TEST(LayerOptions, DifferentialAttentionIsTheFormula) {
  LayerSpec l = attention();
  l.differential = true;
  constexpr size_t kLayer = 2;
  const double init = 0.8 - 0.6 * std::exp(-0.3 * double(kLayer));
  const auto dot = [&](const char* left, const char* right) {
    double sum = 0;
    for (size_t p = 0; p < size_t(kP); ++p) sum += numbers(left, kP)[p] * numbers(right, kP)[p];
    return sum;
  };
  const double lambda = std::exp(dot("attn_lambda_q1.weight", "attn_lambda_k1.weight")) -
                        std::exp(dot("attn_lambda_q2.weight", "attn_lambda_k2.weight")) + init;
  const std::vector<double> x = numbers("x", kRows * kD), norm = numbers("attn_pair_norm.weight", 2 * kP);
  const Table q{product(x, numbers("attn_q.weight", kH * kP * kD), kD, kH * kP), kH},
      k{product(x, numbers("attn_k.weight", kK * kP * kD), kD, kK * kP), kK},
      v{product(x, numbers("attn_v.weight", kK * kP * kD), kD, kK * kP), kK};
  std::vector<double> heads;
  for (int64_t n = 0; n < kRows; ++n)
    for (int64_t pair = 0; pair < kH / 2; ++pair) {
      const int64_t kv = 2 * (pair / kG);  // of its two keys and of the halves of its values, the first
      const auto first = weights_of(q, 2 * pair, k, kv, n, 1, 0),
                 second = weights_of(q, 2 * pair + 1, k, kv + 1, n, 1, 0);
      std::vector<double> o;
      double squares = 0;
      for (int64_t e = 0; e < 2 * kP; ++e) {
        double sum = 0;
        for (int64_t j = 0; j < kRows; ++j)
          sum += (first[size_t(j)] - lambda * second[size_t(j)]) * v.at(j, kv + e / kP)[e % kP];
        o.push_back(sum), squares += sum * sum;
      }
      for (size_t e = 0; e < o.size(); ++e)
        heads.push_back((1 - init) * norm[e] * o[e] / std::sqrt(squares / double(2 * kP) + double(float(kEps))));
    }
  expect_output(heads, "attn_output.weight", output_of(l, kLayer));
}

// Gated DeltaNet without a convolution, token by token, with rates between 0 and 1 or 2.
TEST(LayerOptions, NegativeEigenvaluesDoubleTheRates) {
  for (const bool negative : {false, true}) {
    const LayerSpec l{.mixer =
                          DeltaNet{.key_heads = kK, .value_heads = kH, .width = kP, .negative_eigenvalues = negative}};
    const std::vector<double> x = numbers("x", kRows * kD), dt = numbers("ssm_dt.bias", kH),
                              a = numbers("ssm_a_log", kH), gains = numbers("ssm_norm.weight", kP);
    const auto mapped = [&](const char* name, int64_t rows) { return product(x, numbers(name, rows * kD), kD, rows); };
    const Table rows{mapped("attn_qkv.weight", (2 * kK + kH) * kP), 2 * kK + kH},
        z{mapped("attn_gate.weight", kH * kP), kH};
    const std::vector<double> beta = mapped("ssm_beta.weight", kH), alpha = mapped("ssm_alpha.weight", kH);
    const auto unit = [](const double* v) {
      double squares = float(kEps);
      for (int64_t p = 0; p < kP; ++p) squares += v[p] * v[p];
      return 1 / std::sqrt(squares);
    };
    std::vector<double> heads, states(static_cast<size_t>(kH * kP * kP));
    for (int64_t n = 0; n < kRows; ++n) {
      if (n == kFirst) std::fill(states.begin(), states.end(), 0);
      for (int64_t h = 0; h < kH; ++h) {
        const double *q = rows.at(n, h / kG), *k = rows.at(n, kK + h / kG), *v = rows.at(n, 2 * kK + h);
        const double q_scale = unit(q) / std::sqrt(double(kP)), k_scale = unit(k);
        const size_t i = size_t(n * kH + h);
        const double rate = (negative ? 2 : 1) / (1 + std::exp(-beta[i])),
                     decay = std::exp(-std::exp(a[size_t(h)]) * std::log1p(std::exp(alpha[i] + dt[size_t(h)])));
        double* s = &states[size_t(h * kP * kP)];  // [key, value]
        double o[kP] = {}, squares = 0;
        for (int64_t c = 0; c < kP; ++c) {
          double held = 0;
          for (int64_t p = 0; p < kP; ++p) held += (s[p * kP + c] *= decay) * k[p] * k_scale;
          for (int64_t p = 0; p < kP; ++p) {
            s[p * kP + c] += k[p] * k_scale * rate * (v[c] - held);
            o[c] += s[p * kP + c] * q[p] * q_scale;
          }
          squares += o[c] * o[c];
        }
        const double rms = std::sqrt(squares / double(kP) + double(float(kEps)));
        for (int64_t c = 0; c < kP; ++c) {
          const double gate = z.at(n, h)[c];
          heads.push_back(gains[size_t(c)] * o[c] / rms * gate / (1 + std::exp(-gate)));
        }
      }
    }
    expect_output(heads, "ssm_out.weight", output_of(l));
  }
}

ModelSpec with_layers(const std::string& layers) {
  nlohmann::json j{{"architecture", "toy"}, {"d_model", 24}, {"n_layers", 4}, {"n_heads", 4},  {"n_kv", 2},
                   {"d_head", 8},           {"d_ff", 40},    {"vocab", 61},   {"context", 200}};
  j["layers"] = layers;
  return spec_from_json(j, "x.json");
}

// Every option somewhere.
const char* const kAll =
    "attn(differential=true,softmax=scalable,depth_scale=true),"
    "gdn(delta_key_heads=2,delta_value_heads=4,delta_width=8,conv_width=3,delta_heads=tile,"
    "delta_negative_eigenvalues=true),"
    "attn(window=20,rope=none,qk_norm=true,attention_gate=true,norm_place=both,attention_softcap=30,softmax=scalable),"
    "attn(differential=true,window=33,attention_gate=true,rope_dims=4,norm_place=after)";

// The divisor of a layer is a factor of its norms.
TEST(LayerOptions, DepthScaleDividesByTheRootOfTheLayer) {
  const auto dev = make_reference_device();
  const ModelSpec with = with_layers("attn(depth_scale=true)"), without = with_layers("attn");
  const Model a = random_model(with, *dev, 1);
  Model b = random_model(without, *dev, 1);
  for (int layer = 0; layer < 4; ++layer)
    for (const char* norm : {"attn_norm", "ffn_norm"}) {
      const std::string name = "blk." + std::to_string(layer) + "." + norm + ".weight";
      std::vector<float> w = b.params->read(name);
      for (float& x : w) x = float(1 / std::sqrt(double(layer + 1)));
      b.params->write(name, w);
    }
  const std::vector<int32_t> ids = testing::random_ids(20, 61, Philox(1, "ids"));
  Decoder da(*dev, a, {}), db(*dev, b, {});
  const std::vector<float> la = testing::all_logits(da, 0, ids, 20), lb = testing::all_logits(db, 0, ids, 20);
  for (size_t i = 0; i < la.size(); ++i) EXPECT_NEAR(la[i], lb[i], 1e-5);
}

// Training's forward pass and decoding are one model, whatever its layers are; and rows keep their bits.
TEST(LayerOptions, TrainAndDecodeAlike) {
  const ModelSpec spec = with_layers(kAll);
  const std::vector<int32_t> ids = testing::random_ids(90, 61, Philox(1, "ids"));
  for (const bool reference : {true, false}) {
    const auto dev = reference ? make_reference_device() : make_test_device(2);
    const Model model = random_model(spec, *dev, 1);
    LossGraph l = build_loss_graph(
        spec, [](const std::string&) { return DType::f32; }, 1, 90);
    Session session(*dev, std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *dev)),
                    {model.params.get()});
    std::vector<int32_t> position;
    for (int32_t i = 0; i < 90; ++i) position.push_back(i);
    session.set("tokens", ids), session.set("targets", ids), session.set("position", position);
    session.set("weight", std::vector<float>(90, 1.0f)), session.set("sequence", std::vector<int32_t>(90, 0));
    session.run();
    const std::vector<float> trained = session.values(0);
    Decoder whole(*dev, model, {}), pieces(*dev, model, {.sequences = 2});
    const std::vector<float> a = testing::all_logits(whole, 0, ids, 90), b = testing::all_logits(pieces, 1, ids, 7);
    EXPECT_TRUE(testing::same_bits(a, b)) << reference;
    double top = 0;
    for (const float x : trained) top = std::max(top, double(std::abs(x)));
    // f64 rounded once; f32 as in golden_test.cpp.
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], trained[i], (reference ? 1 : 64) * 0x1p-24 * top) << i;
  }
}

// Only files of the architecture `toy` say so.
TEST(LayerOptions, NegativeEigenvaluesMakeAModelOfTheFamilyToy) {
  ModelSpec m = model_spec("hybrid-tiny");
  const std::string family = m.architecture;
  for (LayerSpec& l : m.layers)
    if (auto* delta = std::get_if<DeltaNet>(&l.mixer)) delta->negative_eigenvalues = true;
  EXPECT_NE(testing::error_of([&] {
              m.validate();
            }).find("delta_negative_eigenvalues is true; in the architecture " + family),
            std::string::npos);
  set_layers(m = model_spec("hybrid-tiny"), "gdn(delta_negative_eigenvalues=true)*3,attn");
  EXPECT_EQ(m.architecture, "toy");
  EXPECT_TRUE(spec_from_json(nlohmann::json(to_json(m)), "x.json") == m);
}

TEST(LayerOptions, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_NE(
      testing::error_of([] { with_layers("attn(differential=true,n_kv=1)"); }).find("even n_heads and n_kv, 4 and 1"),
      std::string::npos);
  EXPECT_NE(
      testing::error_of([] { with_layers("attn(differential=true,attention_sinks=true)"); }).find("attention_sinks"),
      std::string::npos);
  EXPECT_NE(testing::error_of([] { with_layers("attn(softmax=hard)"); }).find("there are: standard, scalable"),
            std::string::npos);
}

}  // namespace
}  // namespace toy::layer_options_test

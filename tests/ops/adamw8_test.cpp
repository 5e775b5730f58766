// One step against the reference, ten steps against a plain statement, and the code itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/harness.h"
#include "toy/backend/dynamic_code.h"
#include "toy/ops/ops.h"

namespace toy::test::adamw8_test {
namespace {

constexpr double kU = 0x1p-24;

uint8_t code_at(const std::vector<double>& words, size_t i) {
  return uint8_t(uint32_t(int32_t(words[i / 4])) >> (8 * (i % 4)));
}

// A moment's new values before they are rounded to codes, and the sizes of what was added up for them.
struct Moment {
  std::vector<double> value, terms;
};
Moment moment_of(const Run& r, bool second) {
  const AdamWAttrs a = r.attrs().as<AdamWAttrs>();
  const double scale = r.has(9) ? r.in(9)[0] : 1, beta = second ? a.beta2 : a.beta1;
  const auto codes = r.in(second ? 4 : 2), scales = r.in(second ? 5 : 3), g = r.in(1);
  Moment m;
  for (size_t i = 0; i < g.size(); ++i) {
    const DynamicCode& code = second ? kUnsignedCode : kSignedCode;
    const double old = scales[i / kCodeBlock] * double(code.value[code_at(codes, i)]);
    const double now = second ? scale * g[i] * scale * g[i] : scale * g[i];
    m.value.push_back(beta * old + (1 - beta) * now);
    m.terms.push_back(std::fabs(beta * old) + std::fabs((1 - beta) * now));
  }
  return m;
}

// Largest of a block's `v`.
double largest(const std::vector<double>& v, size_t block) {
  double most = 0;
  for (size_t i = block * kCodeBlock; i < std::min(v.size(), (block + 1) * kCodeBlock); ++i)
    most = std::max(most, std::fabs(v[i]));
  return most;
}

// Words of four codes. Moment and scale are within 8u of their terms, their quotient rounds once more: a code may be
// its neighbour where the quotient lies that near to a threshold.
std::vector<double> code_bound(const Run& r, int o) {
  const bool second = o == 3;
  const Moment m = moment_of(r, second);
  const DynamicCode& code = second ? kUnsignedCode : kSignedCode;
  std::vector<double> b(r.out(o).size());
  for (size_t i = 0; i < m.value.size(); ++i) {
    const size_t block = i / kCodeBlock;
    const double top = largest(m.value, block), x = m.value[i] / top;
    const double error = kU * (8 * m.terms[i] / top + std::fabs(x) * (8 * largest(m.terms, block) / top + 2));
    const int now = code_at(r.out(o), i);
    for (const int k : {now - 1, now})
      if (k >= 0 && k < 255 && std::fabs(x - double(code.threshold[size_t(k)])) <= error)
        b[i / 4] += std::ldexp(1, i % 4 == 3 ? 32 : 8 * int(i % 4)) / kU;  // the last byte is the sign's
  }
  return b;
}

// w' as in adamw_test.cpp, two u more for decoding; scales: the largest of what they are scales of.
std::vector<double> bound(const Run& r, int o) {
  if (o == 1 || o == 3) return code_bound(r, o);
  std::vector<double> b = r.out(o);
  if (o == 2 || o == 4) {
    const Moment m = moment_of(r, o == 4);
    for (size_t block = 0; block < b.size(); ++block) b[block] = 8 * largest(m.terms, block);
    return b;
  }
  const AdamWAttrs a = r.attrs().as<AdamWAttrs>();
  const double lr = r.in(6)[0], bias1 = r.in(7)[0], bias2 = r.in(8)[0];
  const Moment m = moment_of(r, false), v = moment_of(r, true);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 3 * (std::fabs(r.in(0)[i]) + std::fabs(b[i])) +
           18 * m.terms[i] * lr / bias1 / (std::sqrt(v.value[i] / bias2) + a.eps);
  return b;
}

std::string state(const std::string& shape, const std::string& blocks, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " m:i32[" + blocks + ",64]=below(2147483647) m_scale:[" + blocks +
         "]=range(0.1,2) v:i32[" + blocks + ",64]=below(2147483647) v_scale:[" + blocks +
         "]=range(0.1,2) lr:[]=const(0.01) bias1:[]=const(0.19) bias2:[]=const(0.0975) gscale:" + gscale;
}

const OpSuite kSuite{
    .op = "adamw8",
    .cases = {{state("[1]", "1", "none"), AdamWAttrs{}},
              {state("[3,31]", "1", "[]=const(0.37)"), AdamWAttrs{0.9, 0.95, 1e-8, 0.1}},
              {state("[512]", "2", "none"), AdamWAttrs{0.5, 0.999, 1e-3, 0}},
              {state("[67,131]", "35", "[]=const(0.5)"), AdamWAttrs{0.9, 0.95, 1e-8, 0.1}}},
    .bad = {{state("[3]", "1", "none"), "adamw8: beta1 is -1, expected 0 to below 1", AdamWAttrs{-1}},
            {state("[257]", "1", "none"), "adamw8: 1 blocks of 256 for 257 elements, expected 2", AdamWAttrs{}},
            {"w:[3] g:[3] m:[1,64] m_scale:[1] v:i32[1,64] v_scale:[1] lr:[] bias1:[] bias2:[] "
             "gscale:none",
             "adamw8: m is f32, expected i32", AdamWAttrs{}}},
    .bound = bound};
const bool kDone = register_suite(kSuite);

// Dettmers et al. 2021: seven decades of 2^i, or 2^(i+1), parts of equal size.
TEST(DynamicCode, SevenDecades) {
  for (const DynamicCode* code : {&kSignedCode, &kUnsignedCode}) {
    for (size_t k = 1; k < 256; ++k) EXPECT_LT(code->value[k - 1], code->value[k]);
    const bool has_sign = code == &kSignedCode;
    for (int decade = 0; decade < 7; ++decade) {
      const double top = std::pow(10, decade - 6);
      const auto inside = [&](float v) { return double(v) > top / 10 && double(v) < top; };
      const auto count = std::count_if(code->value.begin(), code->value.end(), inside);
      EXPECT_EQ(count, has_sign ? 1 << decade : 2 << decade) << decade;
    }
    EXPECT_EQ(code->value[255], 1.0f);
    EXPECT_NEAR(double(code->value[254]), has_sign ? 1 - 0.45 / 64 : 1 - 0.45 / 128, 1e-7);  // half a part below 1
  }
  EXPECT_EQ(kSignedCode.value[127], 0.0f);
  EXPECT_NEAR(double(kSignedCode.value[128]), 0.55e-6, 1e-13);
  for (size_t k = 1; k < 128; ++k) EXPECT_EQ(kSignedCode.value[127 - k], -kSignedCode.value[127 + k]);
}

TEST(DynamicCode, ANumberGetsTheNearestValue) {
  for (const DynamicCode* code : {&kSignedCode, &kUnsignedCode}) {
    for (size_t k = 0; k < 256; ++k) EXPECT_EQ(code->of(double(code->value[k])), k);
    for (double x = code == &kSignedCode ? -1 : 0; x <= 1; x += 1.37e-4) {
      size_t best = 0;
      for (size_t k = 1; k < 256; ++k)
        if (std::fabs(x - double(code->value[k])) < std::fabs(x - double(code->value[best]))) best = k;
      const double found = std::fabs(x - double(code->value[code->of(x)]));
      EXPECT_NEAR(found, std::fabs(x - double(code->value[best])), 0x1p-24) << x;  // thresholds are rounded to f32
    }
  }
}

// 300 weights, two blocks. Moments as the plain statement rounds them are those of the op to the last code.
TEST(AdamW8, TenStepsOfAPlainStatement) {
  constexpr size_t kN = 300;
  const AdamWAttrs a{0.9, 0.95, 1e-8, 0.1};
  Built b = build_operands(parse_operands(state("[300]", "2", "[]=const(0.5)")));
  const auto& in = b.operands;
  const AdamW8State next = adamw8({in[0], in[2], in[3], in[4], in[5]}, in[1], in[6], in[7], in[8], in[9], a);
  b.outputs = {next.w, next.m, next.m_scale, next.v, next.v_scale};
  Program program(b, reference_device());
  Feed feed = b.feed;
  for (const char* name : {"m", "v"}) feed[name] = std::vector<double>(128, 0.0);
  for (const char* name : {"m_scale", "v_scale"}) feed[name] = {0, 0};
  std::vector<double> w = feed["w"], m(kN), v(kN);
  const double lr = feed["lr"][0];
  const auto rounded = [](std::vector<double>& x, const DynamicCode& code) {
    std::vector<double> scales{largest(x, 0), largest(x, 1)};
    for (size_t i = 0; i < x.size(); ++i) {
      const double scale = scales[i / kCodeBlock];
      size_t k = code.of(x[i] / scale);
      if (&code == &kUnsignedCode && x[i] > 0 && k == 0) k = 1;
      x[i] = scale * double(code.value[k]);
    }
  };
  for (int t = 1; t <= 10; ++t) {
    for (size_t i = 0; i < kN; ++i) feed["g"][i] = (2 * w[i] - double(i % 7) * 0.3) * std::pow(10, -double(i % 4));
    feed["bias1"] = {1 - std::pow(a.beta1, t)}, feed["bias2"] = {1 - std::pow(a.beta2, t)};
    const Results y = program.run(feed);
    for (size_t i = 0; i < kN; ++i) {
      const double g = 0.5 * feed["g"][i];
      m[i] = a.beta1 * m[i] + (1 - a.beta1) * g, v[i] = a.beta2 * v[i] + (1 - a.beta2) * g * g;
      w[i] -= lr * a.weight_decay * w[i];
      w[i] -= lr * m[i] / feed["bias1"][0] / (std::sqrt(v[i] / feed["bias2"][0]) + a.eps);
      EXPECT_NEAR(y[0][i], w[i], t * 40 * 0x1p-53) << "step " << t;  // some 20 roundings a step, of numbers below 2
    }
    rounded(m, kSignedCode), rounded(v, kUnsignedCode);
    feed["w"] = y[0], feed["m"] = y[1], feed["m_scale"] = y[2], feed["v"] = y[3], feed["v_scale"] = y[4];
    for (size_t i = 0; i < kN; ++i)
      EXPECT_NEAR(y[2][i / kCodeBlock] * double(kSignedCode.value[code_at(y[1], i)]), m[i], 1e-15) << t << " " << i;
  }
}

// Without memory of the gradients before, the moments are the gradient and its square. Numbers on both sides of every
// threshold, and on it; the largest of each block is 1.
TEST(AdamW8, EveryThresholdIsWhereItIs) {
  std::vector<double> g;
  for (const DynamicCode* code : {&kSignedCode, &kUnsignedCode})
    for (const float threshold : std::span(code->threshold).first(255))
      for (const float x : {std::nextafter(threshold, -2.0f), threshold, std::nextafter(threshold, 2.0f)})
        for (const float number : {x, std::sqrt(std::fabs(x))}) {
          if (g.size() % kCodeBlock == 0) g.push_back(1);
          g.push_back(double(number));
        }
  for (const double x : {0.0, -0.0, 0x1p-149, -0x1p-149, 0x1p-23, -0x1p-23, 0x1p-30, -1.0}) g.push_back(x);
  const size_t blocks = (g.size() + kCodeBlock - 1) / kCodeBlock;
  const std::string shape = "[" + std::to_string(g.size()) + "]";
  const Built b = build_op(*find_op("adamw8"), parse_operands(state(shape, std::to_string(blocks), "none")),
                           AdamWAttrs{0, 0, 1e-8, 0.1});
  Feed feed = b.feed;
  feed["g"] = g;
  for (Device* device : {&cpu_device(2), emulated_devices()[2]}) {
    const Results y = Program(b, *device).run(feed);
    for (size_t i = 0; i < g.size(); ++i) {
      const float x = float(g[i]), square = x * x;
      EXPECT_EQ(code_at(y[1], i), kSignedCode.of(double(x))) << device->name() << x;
      EXPECT_EQ(code_at(y[3], i), std::max<int>(kUnsignedCode.of(double(square)), square > 0)) << device->name() << x;
    }
  }
}

// A second moment that is small beside its neighbours must not become 0: the first moment divided by it would explode.
TEST(AdamW8, ASmallSecondMomentStaysAboveZero) {
  const Built b = build_op(*find_op("adamw8"), parse_operands(state("[40]", "1", "none")), AdamWAttrs{});
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    Feed feed = b.feed;
    feed["m_scale"] = feed["v_scale"] = {0};
    feed["g"] = std::vector<double>(40, 1e-6);
    feed["g"][0] = 100, feed["g"][7] = 0;
    const Results y = Program(b, *device).run(feed);
    EXPECT_EQ(code_at(y[3], 0), 255);
    EXPECT_EQ(code_at(y[3], 1), 1);
    EXPECT_EQ(code_at(y[3], 7), 0);
    EXPECT_EQ(code_at(y[1], 7), 127);
  }
}

TEST(AdamW8, AGradientScaleThatIsNotFiniteSkipsTheStep) {
  const Built b = build_op(*find_op("adamw8"), parse_operands(state("[7]", "1", "[]")), AdamWAttrs{});
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    Feed feed = b.feed;
    feed["gscale"] = {INFINITY};
    feed["g"][3] = NAN;
    const Results y = Program(b, *device).run(feed);
    const char* names[] = {"w", "m", "m_scale", "v", "v_scale"};
    for (size_t o = 0; o < 5; ++o) expect_same(y[o], feed[names[o]], names[o]);
  }
}

}  // namespace
}  // namespace toy::test::adamw8_test

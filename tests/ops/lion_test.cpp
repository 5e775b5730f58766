// One step against the reference, ten steps against algorithm 2 of Chen et al. 2023, written here as a loop.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::lion_test {
namespace {

// src/backend/cpu/optimizer/lion.cpp, one u more for each sum. Where the direction lies within its error of 0 it may
// have either sign or none: the step differs by up to 2 lr.
std::vector<double> bound(const Run& r, int o) {
  const LionAttrs a = r.attrs().as<LionAttrs>();
  const double scale = r.has(4) ? r.in(4)[0] : 1, lr = r.in(3)[0];
  std::vector<double> b = r.out(o);
  for (size_t i = 0; i < b.size(); ++i) {
    const double g = scale * r.in(1)[i], m = r.in(2)[i], w = r.in(0)[i];
    const auto terms = [&](double beta) { return std::fabs(beta * m) + std::fabs((1 - beta) * g); };
    const double direction = a.beta1 * m + (1 - a.beta1) * g;
    const bool unsure = std::fabs(direction) <= 5 * 0x1p-24 * terms(a.beta1);
    b[i] = o == 1 ? 5 * terms(a.beta2) : 3 * (std::fabs(w) + std::fabs(b[i])) + lr + (unsure ? 2 * lr * 0x1p24 : 0);
  }
  return b;
}

std::string state(const std::string& shape, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " m:" + shape + " lr:[]=const(0.01) gscale:" + gscale;
}

const OpSuite kLion{
    .op = "lion",
    .cases = {{state("[1]", "none"), LionAttrs{}},
              {state("[3,31]", "none"), LionAttrs{0.9, 0.99, 0.1}},
              {state("[2,3,5]", "[]=const(0.37)"), LionAttrs{0.5, 0.8, 1}},
              {state("[67,131]", "[]=const(0.5)"), LionAttrs{0.9, 0.99, 0.1}}},
    .bad = {{"w:[3] g:[3] m:[3] lr:[] gscale:none", "lion: beta2 is 1.5, expected 0 to below 1", LionAttrs{0.9, 1.5}},
            {"w:[3] g:[4] m:[3] lr:[] gscale:none", "lion: g has leading dimensions [4], w has [3]", LionAttrs{}},
            {"w:[3] g:[3] m:[3] lr:[1] gscale:none", "lion: lr has 1 dimensions [1], expected 0", LionAttrs{}}},
    .bound = bound};
const bool kDone = register_suite(kLion);

// Both sides get the same gradients. A step rounds w by 3u (|w| + |w'|) / 2 each and by u lr, and rounds m by 5u of
// its terms; errors of w only add up, those of m shrink by beta2.
void ten_steps(Device& device, double u) {
  const LionAttrs a{0.9, 0.99, 0.1};
  Built b = build_operands(parse_operands(state("[6]", "[]=const(0.5)")));
  const LionState next = lion({b.operands[0], b.operands[2]}, b.operands[1], b.operands[3], b.operands[4], a);
  b.outputs = {next.w, next.m};
  Program program(b, device);
  Feed feed = b.feed;
  feed["m"] = std::vector<double>(6, 0.0);
  std::vector<double> w = feed["w"], m(6, 0.0);
  const double lr = feed["lr"][0];
  double largest = 0;  // moment, from below
  for (int t = 1; t <= 10; ++t) {
    for (size_t i = 0; i < 6; ++i) feed["g"][i] = i == 5 ? 0 : round_to(DType::f32, 2 * w[i] - double(i) * 0.3);
    const Results y = program.run(feed);
    for (size_t i = 0; i < 6; ++i) {
      const double g = 0.5 * feed["g"][i], c = a.beta1 * m[i] + (1 - a.beta1) * g;
      w[i] -= lr * (double(c > 0) - double(c < 0) + a.weight_decay * w[i]);
      m[i] = a.beta2 * m[i] + (1 - a.beta2) * g;
      largest = std::max(largest, std::fabs(m[i]) + std::fabs(g));
      EXPECT_NEAR(y[0][i], w[i], t * u * (6 * (std::fabs(w[i]) + lr) + lr)) << device.name() << " step " << t;
      EXPECT_NEAR(y[1][i], m[i], t * u * 5 * largest) << device.name() << " step " << t;
    }
    feed["w"] = y[0], feed["m"] = y[1];
  }
}

TEST(Lion, TenStepsOfThePublishedAlgorithm) {
  ten_steps(reference_device(), unit_roundoff(DType::f64));
  for (const int threads : {1, 3}) ten_steps(cpu_device(threads), unit_roundoff(DType::f32));
}

TEST(Lion, AGradientScaleThatIsNotFiniteSkipsTheStep) {
  const Built b = build_op(*find_op("lion"), parse_operands(state("[7]", "[]")), LionAttrs{0.9, 0.99, 0.1});
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const double scale : {double(NAN), double(INFINITY)}) {
      Feed feed = b.feed;
      feed["gscale"] = {scale};
      feed["g"][3] = NAN;
      const Results y = Program(b, *device).run(feed);
      expect_same(y[0], feed["w"], "w");
      expect_same(y[1], feed["m"], "m");
    }
}

}  // namespace
}  // namespace toy::test::lion_test

// One step against the reference, several steps against the published algorithm, written here as a loop.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::adamw_test {
namespace {

struct Step {
  double gradient, moment, second,
      scale;  // of one element: |b1 m| + |(1-b1) g|, v', lr / (bias1 (sqrt(v'/bias2) + eps))
};

Step step_of(const Run& r, size_t i) {
  const AdamWAttrs a = r.attrs().as<AdamWAttrs>();
  const double g = std::fabs(r.in(1)[i] * (r.has(7) ? r.in(7)[0] : 1)), m = std::fabs(r.in(2)[i]), second = r.out(2)[i];
  const double lr = r.in(4)[0], bias1 = r.in(5)[0], bias2 = r.in(6)[0];
  return {g, a.beta1 * m + (1 - a.beta1) * g, second, lr / bias1 / (std::sqrt(second / bias2) + a.eps)};
}

// m' : two products of rounded factors and a sum, g's scale: 5u of the terms. v': the same with one more
// product, 7u of itself. w': the decay's factor, product and the final sum, and 16u of the step (v' halved by
// the root, four quotients and products, m').
std::vector<double> bound(const Run& r, int o) {
  std::vector<double> result(r.out(o).size());
  const std::vector<double> w = r.in(0);
  for (size_t i = 0; i < result.size(); ++i) {
    const Step s = step_of(r, i);
    if (o == 0) result[i] = 3 * (std::fabs(w[i]) + std::fabs(r.out(0)[i])) + 16 * s.moment * s.scale;
    if (o == 1) result[i] = 5 * s.moment;
    if (o == 2) result[i] = 7 * s.second;
  }
  return result;
}

std::string state(const std::string& shape, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " m:" + shape + " v:" + shape +
         "=range(0,2) lr:[]=const(0.01) bias1:[]=const(0.19) bias2:[]=const(0.0975) gscale:" + gscale;
}

const OpSuite kAdamW{
    .op = "adamw",
    .cases = {{state("[]", "none"), AdamWAttrs{}},
              {state("[1]", "none"), AdamWAttrs{}},
              {state("[3,31]", "none"), AdamWAttrs{0.9, 0.95, 1e-8, 0.1}},
              {state("[3,31]", "[]=const(0.37)"), AdamWAttrs{0.9, 0.95, 1e-8, 0.1}},
              {state("[2,3,5]", "[]=const(0.37)"), AdamWAttrs{0.5, 0.999, 1e-3, 0}},
              {state("[67,131]", "[]=const(0.5)"), AdamWAttrs{0.9, 0.95, 1e-8, 0.1}}},
    .bad = {{state("[3]", "none"), "adamw: beta1 is 1, expected 0 to below 1", AdamWAttrs{1}},
            {state("[3]", "none"), "adamw: beta2 is -1, expected 0 to below 1", AdamWAttrs{0.9, -1}},
            {state("[3]", "none"), "adamw: eps is -1, expected a small number, not below 0", AdamWAttrs{0.9, 0.95, -1}},
            {"w:[3] g:[4] m:[3] v:[3] lr:[] bias1:[] bias2:[] gscale:none",
             "adamw: g has leading dimensions [4], w has [3]", AdamWAttrs{}},
            {"w:[3] g:[3] m:[3] v:[3] lr:[1] bias1:[] bias2:[] gscale:none",
             "adamw: lr has 1 dimensions [1], expected 0", AdamWAttrs{}},
            {"w:bf16[3] g:[3] m:[3] v:[3] lr:[] bias1:[] bias2:[] gscale:none",
             "adamw: g is f32, w is bf16; cast one of them", AdamWAttrs{}}},
    .bound = bound};
const bool kDone = register_suite(kAdamW);

// Algorithm 2 of Loshchilov and Hutter 2019, the decay scaled by the learning rate (as in PyTorch).
void published(const AdamWAttrs& a, double lr, int t, double g, double& w, double& m, double& v) {
  w -= lr * a.weight_decay * w;
  m = a.beta1 * m + (1 - a.beta1) * g;
  v = a.beta2 * v + (1 - a.beta2) * g * g;
  const double m_hat = m / (1 - std::pow(a.beta1, t)), v_hat = v / (1 - std::pow(a.beta2, t));
  w -= lr * m_hat / (std::sqrt(v_hat) + a.eps);
}

// Ten steps on a quadratic, the state carried from step to step. `roundings` is the device's: errors of w
// grow by at most a few u (|w| + lr) a step, since each step is bounded by lr / (1 - beta1) sqrt(1 - beta2).
void ten_steps(Device& device, double u) {
  const AdamWAttrs attrs{0.9, 0.95, 1e-8, 0.1};
  Built b = build_operands(parse_operands(state("[5]", "[]=const(1)")));
  const auto& in = b.operands;
  const AdamWState next = adamw({in[0], in[2], in[3]}, in[1], in[4], in[5], in[6], in[7], attrs);
  b.outputs = {next.w, next.m, next.v};
  Program program(b, device);
  Feed feed = b.feed;
  feed["m"] = feed["v"] = std::vector<double>(5, 0.0);
  std::vector<double> w = feed["w"], m(5, 0.0), v(5, 0.0);
  const double lr = feed["lr"][0];
  for (int t = 1; t <= 10; ++t) {
    for (size_t i = 0; i < 5; ++i)
      feed["g"][i] = round_to(DType::f32, 2 * w[i] - double(i) * 0.3);  // given to both sides
    feed["bias1"] = {1 - std::pow(attrs.beta1, t)};
    feed["bias2"] = {1 - std::pow(attrs.beta2, t)};
    const Results y = program.run(feed);
    for (size_t i = 0; i < 5; ++i) {
      published(attrs, lr, t, feed["g"][i], w[i], m[i], v[i]);
      EXPECT_NEAR(y[0][i], w[i], t * u * (6 * std::fabs(w[i]) + 40 * lr)) << device.name() << " step " << t;
    }
    feed["w"] = y[0], feed["m"] = y[1], feed["v"] = y[2];
  }
}

TEST(AdamW, TenStepsOfThePublishedAlgorithm) {
  ten_steps(reference_device(), unit_roundoff(DType::f64));
  for (const int threads : {1, 3}) ten_steps(cpu_device(threads), unit_roundoff(DType::f32));
}

TEST(AdamW, AGradientScaleThatIsNotFiniteSkipsTheStep) {
  const Built b = build_op(*find_op("adamw"), parse_operands(state("[7]", "[]")), AdamWAttrs{0.9, 0.95, 1e-8, 0.1});
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const double scale : {double(NAN), double(INFINITY), -double(INFINITY)}) {
      Program program(b, *device);
      Feed feed = b.feed;
      feed["gscale"] = {scale};
      feed["g"][3] = NAN;
      const Results y = program.run(feed);
      expect_same(y[0], feed["w"], "w");
      expect_same(y[1], feed["m"], "m");
      expect_same(y[2], feed["v"], "v");
    }
}

TEST(AdamW, UpdatesLiveInTheParameters) {
  const Built b = build_op(*find_op("adamw"), parse_operands(state("[7]", "none")), AdamWAttrs{});
  Program program(b, cpu_device(2));
  const Results y = program.run();
  const std::vector<float> w = program.store().read("w");
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(double(w[i]), y[0][i]);
}

}  // namespace
}  // namespace toy::test::adamw_test

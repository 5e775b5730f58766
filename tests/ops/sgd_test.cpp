// One step against the reference, several steps against a plain statement of the update.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::sgd_test {
namespace {

// What is added up for element i: |gscale g| + |wd w|, and |momentum v| more.
struct Terms {
  double gradient, velocity;
};
Terms terms_of(const Run& r, size_t i, bool momentum) {
  const SgdAttrs a = r.attrs().as<SgdAttrs>();
  const int scale = momentum ? 4 : 3;
  const double g = std::fabs(r.in(1)[i] * (r.has(scale) ? r.in(scale)[0] : 1)) + std::fabs(a.weight_decay * r.in(0)[i]);
  return {g, g + (momentum ? std::fabs(a.momentum * r.in(2)[i]) : 0)};
}

// src/backend/cpu/optimizer/sgd.cpp. g': three roundings; v': three more; Nesterov's step: three more; the product with
// the learning rate and the difference.
std::vector<double> bound(const Run& r, int o) {
  const bool momentum = r.outputs() > 1;
  const SgdAttrs a = r.attrs().as<SgdAttrs>();
  const double lr = r.in(momentum ? 3 : 2)[0];
  std::vector<double> b = r.out(o);
  for (size_t i = 0; i < b.size(); ++i) {
    const Terms t = terms_of(r, i, momentum);
    const double step = a.nesterov ? t.gradient + a.momentum * t.velocity : t.velocity;
    b[i] = o == 1 ? 6 * t.velocity : std::fabs(b[i]) + 12 * lr * step;
  }
  return b;
}

std::string plain(const std::string& shape, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " lr:[]=const(0.01) gscale:" + gscale;
}
std::string with_velocity(const std::string& shape, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " v:" + shape + " lr:[]=const(0.01) gscale:" + gscale;
}

const OpSuite kSgd{
    .op = "sgd",
    .cases = {{plain("[1]", "none"), SgdAttrs{}},
              {plain("[3,31]", "none"), SgdAttrs{0, 0.1}},
              {plain("[67,131]", "[]=const(0.37)"), SgdAttrs{0, 0.1}}},
    .bad = {{"w:[3] g:[4] lr:[] gscale:none", "sgd: g has leading dimensions [4], w has [3]", SgdAttrs{}},
            {"w:[3] g:[3] lr:[1] gscale:none", "sgd: lr has 1 dimensions [1], expected 0", SgdAttrs{}}},
    .bound = bound};
const OpSuite kMomentum{
    .op = "sgd_momentum",
    .cases = {{with_velocity("[1]", "none"), SgdAttrs{0.9}},
              {with_velocity("[3,31]", "none"), SgdAttrs{0.9, 0.1}},
              {with_velocity("[2,3,5]", "[]=const(0.37)"), SgdAttrs{0.9, 0.1, true}},
              {with_velocity("[67,131]", "[]=const(0.5)"), SgdAttrs{0.5, 0, true}}},
    .bad = {{with_velocity("[3]", "none"), "sgd: momentum is 1, expected 0 to below 1", SgdAttrs{1}},
            {with_velocity("[3]", "none"), "sgd: momentum is -0.5, expected 0 to below 1", SgdAttrs{-0.5}},
            {with_velocity("[3]", "none"), "sgd: Nesterov's step needs a momentum above 0", SgdAttrs{0, 0, true}},
            {"w:[3] g:[3] v:[2] lr:[] gscale:none", "sgd_momentum: v has leading dimensions [2], w has [3]",
             SgdAttrs{0.9}}},
    .bound = bound};
const bool kDone = register_suite(kSgd) && register_suite(kMomentum);

// Ten steps on a quadratic, the state carried from step to step, beside the definition. The gradient is the same on
// both sides; what w and v may be off is carried along: a step adds the roundings of `bound`.
void ten_steps(Device& device, double u, const SgdAttrs& a) {
  const bool momentum = a.momentum > 0;
  Built b =
      build_operands(parse_operands(momentum ? with_velocity("[5]", "[]=const(0.5)") : plain("[5]", "[]=const(0.5)")));
  const size_t lr_at = momentum ? 3 : 2;
  const SgdState next = sgd({b.operands[0], momentum ? b.operands[2] : Value{}}, b.operands[1], b.operands[lr_at],
                            b.operands[lr_at + 1], a);
  b.outputs = {next.w};
  if (momentum) b.outputs.push_back(next.v);
  Program program(b, device);
  Feed feed = b.feed;
  std::vector<double> w = feed["w"], v(5, 0.0), w_error(5, 0.0), v_error(5, 0.0);
  if (momentum) feed["v"] = v;
  const double lr = feed["lr"][0];
  for (int t = 0; t < 10; ++t) {
    for (size_t i = 0; i < 5; ++i) feed["g"][i] = round_to(DType::f32, 2 * w[i] - double(i) * 0.3);  // of both sides
    const Results y = program.run(feed);
    for (size_t i = 0; i < 5; ++i) {
      const double g = 0.5 * feed["g"][i] + a.weight_decay * w[i];
      const double G = std::fabs(0.5 * feed["g"][i]) + std::fabs(a.weight_decay * w[i]);
      const double V = std::fabs(a.momentum * v[i]) + G, g_error = a.weight_decay * w_error[i];
      v[i] = a.momentum * v[i] + g;
      w[i] -= lr * (a.nesterov ? g + a.momentum * v[i] : v[i]);
      v_error[i] = a.momentum * v_error[i] + g_error + 6 * u * V;
      w_error[i] += lr * (a.nesterov ? g_error + a.momentum * v_error[i] : v_error[i]) + u * std::fabs(w[i]) +
                    12 * u * lr * (a.nesterov ? G + a.momentum * V : V);
      EXPECT_NEAR(y[0][i], w[i], w_error[i]) << device.name() << ", step " << t;
      if (!momentum) continue;
      EXPECT_NEAR(y[1][i], v[i], v_error[i]) << device.name() << ", step " << t;
    }
    feed["w"] = y[0];
    if (momentum) feed["v"] = y[1];
  }
}

TEST(Sgd, TenStepsOfTheDefinition) {
  for (const SgdAttrs& a : {SgdAttrs{}, SgdAttrs{0, 0.1}, SgdAttrs{0.9, 0.1}, SgdAttrs{0.9, 0.1, true}}) {
    ten_steps(reference_device(), unit_roundoff(DType::f64), a);
    for (const int threads : {1, 3}) ten_steps(cpu_device(threads), unit_roundoff(DType::f32), a);
  }
}

TEST(Sgd, AGradientScaleThatIsNotFiniteSkipsTheStep) {
  for (const char* op : {"sgd", "sgd_momentum"}) {
    const bool momentum = std::string(op) == "sgd_momentum";
    const Built b = build_op(*find_op(op), parse_operands(momentum ? with_velocity("[7]", "[]") : plain("[7]", "[]")),
                             SgdAttrs{momentum ? 0.9 : 0, 0.1});
    for (Device* device : {&cpu_device(2), &reference_device()})
      for (const double scale : {double(NAN), double(INFINITY), -double(INFINITY)}) {
        Feed feed = b.feed;
        feed["gscale"] = {scale};
        feed["g"][3] = NAN;
        const Results y = Program(b, *device).run(feed);
        expect_same(y[0], feed["w"], "w");
        if (momentum) expect_same(y[1], feed["v"], "v");
      }
  }
}

TEST(Sgd, MomentumNeedsAVelocity) {
  Graph g;
  const Value w = g.param("w", {DType::f32, {3}, 0}), lr = g.param("lr", {DType::f32, {}, 0});
  try {
    sgd({w, {}}, w, lr, {}, SgdAttrs{0.9});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "sgd: momentum 0.9 needs a velocity");
  }
}

}  // namespace
}  // namespace toy::test::sgd_test

// ssm_scan, a function of gated_delta_rule: against plain loops, with every gradient. The kernels' own tests are in
// gated_delta_rule_test.cpp (kPlain).
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "testing/errors.h"
#include "toy/ops/ops.h"

namespace toy::test::ssm_scan_test {
namespace {

constexpr int64_t kHeads = 4, kWidth = 3, kGroups = 2, kState = 5;
const char* const kRows = "i32[9]=runs(4@2,5@0)";
constexpr int64_t kN = 9, kFirst = 4;  // rows of sequence 0, which resumes; those of sequence 1 begin

std::vector<OperandData> operands(const std::string& a) {
  return parse_operands("x:[9,4,3] dt:[9,4]=range(0.1,1.5) a:[4]=" + a +
                        " b:[9,2,5] c:[9,2,5] s:[2,4,5,3] seq:" + kRows + " pos:" + kRows);
}

// y, then the states.
std::vector<double> plain(const Feed& v) {
  const auto &x = v.at("x"), &dt = v.at("dt"), &a = v.at("a"), &b = v.at("b"), &c = v.at("c"), &s = v.at("s");
  std::vector<double> y(kN * kHeads * kWidth), states = s;
  for (int64_t n = 0; n < kN; ++n)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t p = 0; p < kWidth; ++p) {
        const int64_t out = (n * kHeads + h) * kWidth + p, sequence = n < kFirst ? 0 : 1;
        for (int64_t i = 0; i < kState; ++i) {
          double& state = states[size_t(((sequence * kHeads + h) * kState + i) * kWidth + p)];
          const size_t group = size_t((n * kGroups + h / (kHeads / kGroups)) * kState + i),
                       row = size_t(n * kHeads + h);
          const double before = n == kFirst ? 0 : state;
          state = std::exp(dt[row] * a[size_t(h)]) * before + dt[row] * x[size_t(out)] * b[group];
          y[size_t(out)] += c[group] * state;
        }
      }
  y.insert(y.end(), states.begin(), states.end());
  return y;
}

Built build(const std::vector<OperandData>& in) {
  Built b = build_operands(in);
  const auto& o = b.operands;
  const DeltaRule r = ssm_scan(o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7]);
  b.outputs = {r.o, r.s};
  return b;
}

// An element is a sum of kState products with states, and a state of a term per row: each term within kN decays (exp, a
// product: 4 roundings), and a few products of its own.
constexpr double kRoundings = kState + 4 * kN + 4;

TEST(SsmScan, IsTheRecurrence) {
  for (const char* a : {"range(-4,-0.1)", "const(0)", "const(-inf)"}) {
    const auto in = operands(a);
    const Built b = build(in);
    const std::vector<double> expected = plain(b.feed);
    Feed magnitudes = b.feed;
    for (const char* name : {"x", "b", "c", "s"})
      for (double& v : magnitudes[name]) v = std::fabs(v);
    const std::vector<double> largest = plain(magnitudes);
    Built update = build_operands(in);
    const auto& o = update.operands;
    const DeltaRule r = ssm_scan_update(o[5], o[0], o[1], o[2], o[3], o[4], o[6], o[7]);
    update.outputs = {r.o, r.s};
    for (Device* device : {&reference_device(), &cpu_device(2)}) {
      Results y = Program(b, *device).run(), z = Program(update, *device).run();
      for (size_t i = 0; i < 2; ++i) expect_same(z[i], y[i], std::string(device->name()) + ", updated");
      y[0].insert(y[0].end(), y[1].begin(), y[1].end());
      std::vector<double> bound = largest;
      for (double& v : bound) v *= kRoundings * (device == &reference_device() ? 0x1p-53 : 0x1p-24);
      expect_close(y[0], expected, bound, std::string(device->name()) + ", a=" + a);
    }
  }
}

TEST(SsmScan, Gradients) {
  const auto in = operands("range(-2,-0.1)");
  Built b = build(in);
  ask_for_gradients(b, {0, 1}, {b.leaves.begin(), b.leaves.begin() + 6});
  const Results exact = Program(b, reference_device()).run(), fast = Program(b, cpu_device(2)).run();
  const Results moves = sensitivity(b);
  const double roundings = 2 * double(longest_reduction(*b.graph) + 16);  // as in the suites
  const auto loss = [&](const Feed& v) {
    const std::vector<double> y = plain(v), r0 = b.feed.at("R0"), r1 = b.feed.at("R1");
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * (i < r0.size() ? r0[i] : r1[i - r0.size()]);
    return sum;
  };
  EXPECT_NEAR(exact[0][0], loss(b.feed), 1e-12);
  for (size_t o = 0; o < 6; ++o) {
    const std::string& name = in[o].name;
    for (size_t i = 0; i < exact[o + 1].size(); ++i) {
      const auto at = [&](double step) {
        Feed v = b.feed;
        v[name][i] += step;
        return loss(v);
      };
      // The error of five points is h^4 / 30 of the fifth derivative, below 1e-10 here, and 1e-16 / h from rounding.
      constexpr double h = 1e-3;
      const double slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      EXPECT_NEAR(exact[o + 1][i], slope, 1e-9) << name << " " << i;
      EXPECT_NEAR(fast[o + 1][i], exact[o + 1][i], roundings * 0x1p-24 * moves[o + 1][i]) << name << " " << i;
    }
  }
}

TEST(SsmScan, BadOperands) {
  const auto message = [](const std::string& b, const std::string& a) {
    return toy::testing::error_of([&] {
      build(parse_operands("x:[9,4,3] dt:[9,4] a:" + a + " b:" + b + " c:" + b + " s:none seq:" + kRows +
                           " pos:" + kRows));
    });
  };
  EXPECT_EQ(message("[9,3,5]", "[4]"), "gated_delta_rule: H=4 value heads are not a multiple of K=3 key heads");
  EXPECT_NE(message("[9,2,5]", "[5]").find("mul: "), std::string::npos);
}

}  // namespace
}  // namespace toy::test::ssm_scan_test

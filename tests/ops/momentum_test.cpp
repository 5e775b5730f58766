// momentum, ema, and the orthogonalized matrices that Muon makes of them.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::momentum_test {
namespace {

// src/backend/cpu/optimizer/momentum.cpp, one u more for each sum.
std::vector<double> momentum_bound(const Run& r, int o) {
  const MomentumAttrs a = r.attrs().as<MomentumAttrs>();
  const double scale = r.has(2) ? r.in(2)[0] : 1;
  std::vector<double> b(r.out(o).size());
  for (size_t i = 0; i < b.size(); ++i) {
    const double g = std::fabs(scale * r.in(1)[i]), v = std::fabs(a.momentum * r.in(0)[i]) + g;
    b[i] = o == 1 && a.nesterov ? 8 * (g + a.momentum * v) : 5 * v;
  }
  return b;
}

std::vector<double> ema_bound(const Run& r, int) {
  const double mix = r.in(2)[0];
  std::vector<double> b(r.out(0).size());
  for (size_t i = 0; i < b.size(); ++i) {
    const double avg = std::fabs(r.in(0)[i]), w = std::fabs(r.in(1)[i]);
    b[i] = 5 * (avg + mix * (w + avg));
  }
  return b;
}

std::string operands(const std::string& shape, const std::string& gscale) {
  return "v:" + shape + " g:" + shape + " gscale:" + gscale;
}
std::string average(const std::string& shape, const std::string& gscale) {
  return "avg:" + shape + " w:" + shape + " mix:[]=const(0.3) gscale:" + gscale;
}

const OpSuite kMomentum{
    .op = "momentum",
    .cases = {{operands("[1]", "none"), MomentumAttrs{}},
              {operands("[3,31]", "none"), MomentumAttrs{0.9, false}},
              {operands("[67,131]", "[]=const(0.37)"), MomentumAttrs{0.95, true}}},
    .bad = {{operands("[3]", "none"), "momentum: 1 is not in 0 to below 1", MomentumAttrs{1, false}},
            {"v:[3] g:[2] gscale:none", "momentum: g has leading dimensions [2], v has [3]", MomentumAttrs{}}},
    .bound = momentum_bound};
const OpSuite kEma{
    .op = "ema",
    .cases = {{average("[1]", "none")}, {average("[3,31]", "[]=const(0.5)")}, {average("[67,131]", "none")}},
    .bad = {{"avg:[3] w:[2] mix:[] gscale:none", "ema: w has leading dimensions [2], avg has [3]"}},
    .bound = ema_bound};
const bool kDone = register_suite(kMomentum) && register_suite(kEma);

TEST(Momentum, AGradientScaleThatIsNotFiniteStandsStill) {
  const Built b = build_op(*find_op("momentum"), parse_operands(operands("[7]", "[]")), MomentumAttrs{});
  const Built e = build_op(*find_op("ema"), parse_operands(average("[7]", "[]")), {});
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Feed feed = b.feed;
    feed["gscale"] = {NAN};
    const Results y = Program(b, *device).run(feed);
    expect_same(y[0], feed["v"], "v");
    expect_same(y[1], std::vector<double>(7, 0.0), "step");
    Feed averaged = e.feed;
    averaged["gscale"] = {INFINITY};
    expect_same(Program(e, *device).run(averaged)[0], averaged["avg"], "avg");
  }
}

Built orthogonalized_of(const std::string& operand) {
  Built b = build_operands(parse_operands(operand));
  b.outputs = {orthogonalized(b.operands[0])};
  return b;
}

// The iteration on one singular value.
double iterated(double s) {
  for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * std::pow(s, 3) + 2.0315 * std::pow(s, 5);
  return s;
}

// A diagonal matrix is its own singular values. 5 steps of 3 products each, on numbers below 2: 100 u is what 15
// chains of at most 6 roundings leave.
TEST(Orthogonalized, MovesSingularValuesAlone) {
  const std::vector<double> s{1, 0.5, 0.1, 0.02};
  double norm = 0;
  for (const double v : s) norm += v * v;
  norm = std::sqrt(norm);
  for (const char* shape : {"x:[4,6]=const(0)", "x:[6,4]=const(0)"}) {
    Built b = orthogonalized_of(shape);
    const size_t columns = shape[3] == '4' ? 6 : 4;
    for (size_t i = 0; i < 4; ++i) b.feed["x"][i * columns + i] = s[i];
    for (Device* device : {&reference_device(), &cpu_device(2)}) {
      const std::vector<double> y = Program(b, *device).run()[0];
      for (size_t i = 0; i < y.size(); ++i) {
        const bool diagonal = i / columns == i % columns;
        const double expected = diagonal ? iterated(s[i / columns] / norm) : 0;
        EXPECT_NEAR(y[i], expected, 100 * 0x1p-24) << shape << " " << i;
        if (diagonal && i / columns < 3) {
          EXPECT_NEAR(y[i], 0.95, 0.3) << i;
        }
      }
    }
  }
}

// X <- a X + (b A + c A^2) X, A = X X^T, as loops, from x / |x|.
std::vector<double> plain(std::vector<double> x, size_t rows, size_t columns) {
  double norm = 0;
  for (const double v : x) norm += v * v;
  for (double& v : x) v /= std::sqrt(norm);
  for (int step = 0; step < 5; ++step) {
    std::vector<double> a(rows * rows), p(rows * rows), next(x.size());
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < rows; ++j)
        for (size_t k = 0; k < columns; ++k) a[i * rows + j] += x[i * columns + k] * x[j * columns + k];
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < rows; ++j) {
        p[i * rows + j] = -4.7750 * a[i * rows + j];
        for (size_t k = 0; k < rows; ++k) p[i * rows + j] += 2.0315 * a[i * rows + k] * a[k * rows + j];
      }
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        next[i * columns + j] = 3.4445 * x[i * columns + j];
        for (size_t k = 0; k < rows; ++k) next[i * columns + j] += p[i * rows + k] * x[k * columns + j];
      }
    x = next;
  }
  return x;
}

// Both products (rows first, columns first) have the same meaning. Every value of the graph is within n + 16 roundings
// of its operands, n the longest reduction; twice, for the spread of the estimate (Bound by_sensitivity of the
// harness).
TEST(Orthogonalized, IsTheIteration) {
  for (const auto& [operand, rows, columns] : {std::tuple("x:[5,9]", 5, 9), std::tuple("x:[9,5]", 9, 5),
                                               std::tuple("x:[7,7]", 7, 7), std::tuple("x:[40,90]", 40, 90)}) {
    const Built b = orthogonalized_of(operand);
    const auto expected = plain(b.feed.at("x"), size_t(rows), size_t(columns));
    const Results moves = sensitivity(b);
    for (Device* device : {&reference_device(), &cpu_device(1), &cpu_device(3)}) {
      const bool f64 = device == &reference_device();
      std::vector<double> allowed = moves[0];
      for (double& v : allowed)
        v *= 2 * double(longest_reduction(*b.graph) + 16) * unit_roundoff(f64 ? DType::f64 : DType::f32);
      expect_close(Program(b, *device).run()[0], expected, allowed, operand);
    }
  }
}

TEST(Orthogonalized, EachOfSeveralMatrices) {
  const Built all = orthogonalized_of("x:[2,3,5]");
  const std::vector<double> x = all.feed.at("x"), y = Program(all, reference_device()).run()[0];
  for (size_t m = 0; m < 2; ++m) {
    const auto one = plain({x.begin() + int64_t(m) * 15, x.begin() + int64_t(m + 1) * 15}, 3, 5);
    for (size_t i = 0; i < 15; ++i) EXPECT_NEAR(y[m * 15 + i], one[i], 1e-12);
  }
}

TEST(Orthogonalized, ZerosStayAndVectorsAreRefused) {
  const Built b = orthogonalized_of("x:[3,4]=const(0)");
  for (Device* device : {&reference_device(), &cpu_device(2)})
    expect_same(Program(b, *device).run()[0], std::vector<double>(12, 0.0), "zeros");
  Graph g;
  EXPECT_THROW(orthogonalized(g.param("v", {DType::f32, {3}, 0})), Error);
}

}  // namespace
}  // namespace toy::test::momentum_test

// One step against the reference, ten steps against the published algorithm, written here as loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::adafactor_test {
namespace {

double scale_of(const Run& r, int operand) { return r.has(operand) ? r.in(operand)[0] : 1; }

// How much of its step a weight moved by, without decay.
std::vector<double> steps_of(const Run& r, double lr) {
  std::vector<double> steps = r.out(0);
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i] = std::fabs(steps[i] - r.in(0)[i] * (1 - lr * r.attrs().as<AdafactorAttrs>().weight_decay));
  return steps;
}

// src/backend/cpu/optimizer/adafactor.cpp. row', col': sums in f64, one rounding (2 with the scale's and the mix's).
// The update: the factor of its row (2u of row' and of the mean, its own rounding), the product with col' (2u) and its
// rounding, 7u, halved by the root; root, scale and quotient 3u. Its mean square: twice that, and C/64 + 7 roundings of
// a sum of C terms; halved by the root. The rate: two roundings, product and difference: two.
std::vector<double> bound(const Run& r, int o) {
  std::vector<double> b = r.out(o);
  const double update = 7.0 / 2 + 3, mean_square = 2 * update + double(r.shape(0)[1]) / 64 + 7;
  const std::vector<double> steps = steps_of(r, r.in(4)[0]);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = o > 0 ? 2 * std::fabs(b[i])
                 : 3 * (std::fabs(r.in(0)[i]) + std::fabs(b[i])) + steps[i] * (update + mean_square / 2 + 4);
  return b;
}

// v' = v + mix (g^2 - v): three roundings of g^2, then two of sums, of these magnitudes: |v| + mix (g^2 + |v|). The
// rest as above with the largest relative error of a v'.
std::vector<double> vector_bound(const Run& r, int o) {
  const double mix = r.in(4)[0], scale = scale_of(r, 5);
  std::vector<double> of_v(r.out(1).size()), b = r.out(o);
  double worst = 0;
  for (size_t i = 0; i < of_v.size(); ++i) {
    const double g = scale * r.in(1)[i], v = r.in(2)[i];
    of_v[i] = 5 * (v + mix * (g * g + v));
    worst = std::max(worst, of_v[i] / r.out(1)[i]);
  }
  if (o == 1) return of_v;
  const double update = worst / 2 + 3, tile = double(std::min<size_t>(of_v.size(), 4096));
  const double mean_square = 2 * update + tile / 64 + 7;
  const std::vector<double> steps = steps_of(r, r.in(3)[0]);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = 3 * (std::fabs(r.in(0)[i]) + std::fabs(b[i])) + steps[i] * (update + mean_square / 2 + 4);
  return b;
}

std::string matrix(const std::string& rows, const std::string& columns, const std::string& gscale) {
  const std::string shape = "[" + rows + "," + columns + "]";
  return "w:" + shape + " g:" + shape + " row:[" + rows + "]=range(0.1,2) col:[" + columns +
         "]=range(0.1,2) lr:[]=const(0.01) mix:[]=const(0.3) gscale:" + gscale;
}
std::string vector(const std::string& shape, const std::string& gscale) {
  return "w:" + shape + " g:" + shape + " v:" + shape +
         "=range(0.1,2) lr:[]=const(0.01) mix:[]=const(0.3) gscale:" + gscale;
}

const AdafactorAttrs kRelative{.clip = 0.5, .weight_decay = 0.1, .relative = true};
const OpSuite kMatrix{
    .op = "adafactor",
    .cases = {{matrix("1", "1", "none"), AdafactorAttrs{}},
              {matrix("3", "31", "none"), AdafactorAttrs{.weight_decay = 0.1}},
              {matrix("31", "3", "[]=const(0.37)"), AdafactorAttrs{.clip = 0.2}},
              {matrix("67", "131", "[]=const(0.5)"), kRelative},
              {matrix("200", "17", "none"), kRelative}},
    .bad = {{matrix("3", "4", "none"), "adafactor: eps is 0, expected a small positive number",
             AdafactorAttrs{.eps = 0}},
            {matrix("3", "4", "none"), "adafactor: clip is 0, expected a positive number", AdafactorAttrs{.clip = 0}},
            {"w:[3,4] g:[3,4] row:[4] col:[4] lr:[] mix:[] gscale:none", "adafactor: row has R=4, w has R=3",
             AdafactorAttrs{}}},
    .bound = bound};
const OpSuite kVector{.op = "adafactor_vector",
                      .cases = {{vector("[1]", "none"), AdafactorAttrs{}},
                                {vector("[2,3,5]", "[]=const(0.37)"), AdafactorAttrs{.weight_decay = 0.1}},
                                {vector("[9001]", "[]=const(0.5)"), kRelative}},
                      .bad = {{"w:[3] g:[3] v:[2] lr:[] mix:[] gscale:none",
                               "adafactor_vector: v has leading dimensions [2], w has [3]", AdafactorAttrs{}}},
                      .bound = vector_bound};
const bool kDone = register_suite(kMatrix) && register_suite(kVector);

double root_mean_square(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum / double(x.size()));
}

// Algorithm 4 of Shazeer and Stern 2018 (second moments raised to eps^2 as in PyTorch), ten steps with beta2 = 1 -
// t^-0.8 from moments of nothing, in f64.
TEST(Adafactor, TenStepsOfThePublishedAlgorithm) {
  constexpr size_t kRows = 4, kColumns = 3;
  const AdafactorAttrs a{.clip = 0.7, .weight_decay = 0.1, .relative = true};
  Built b = build_operands(parse_operands(matrix("4", "3", "[]=const(0.5)")));
  const auto& in = b.operands;
  const AdafactorState next = adafactor({in[0], in[2], in[3]}, in[1], in[4], in[5], in[6], a);
  b.outputs = {next.w, next.row, next.col};
  Program program(b, reference_device());
  Feed feed = b.feed;
  feed["row"] = std::vector<double>(kRows, 0.0), feed["col"] = std::vector<double>(kColumns, 0.0);
  std::vector<double> w = feed["w"], row = feed["row"], col = feed["col"];
  const double lr = feed["lr"][0];
  for (int t = 1; t <= 10; ++t) {
    const double beta2 = 1 - std::pow(t, -0.8);
    for (size_t i = 0; i < w.size(); ++i) feed["g"][i] = 2 * w[i] - double(i % 5) * 0.3;
    feed["mix"] = {1 - beta2};
    const Results y = program.run(feed);
    std::vector<double> rows(kRows), columns(kColumns), u(w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = 0.5 * feed["g"][i];
      rows[i / kColumns] += g * g / kColumns, columns[i % kColumns] += g * g / kRows;
    }
    double mean = 0;
    for (size_t i = 0; i < kRows; ++i) row[i] = beta2 * row[i] + (1 - beta2) * rows[i], mean += row[i] / kRows;
    for (size_t j = 0; j < kColumns; ++j) col[j] = beta2 * col[j] + (1 - beta2) * columns[j];
    for (size_t i = 0; i < w.size(); ++i)
      u[i] = 0.5 * feed["g"][i] / std::sqrt(row[i / kColumns] * col[i % kColumns] / mean);
    const double clipped = std::max(1.0, root_mean_square(u) / a.clip), size = root_mean_square(w);
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = w[i] * (1 - lr * a.weight_decay) - lr * size * u[i] / clipped;
      EXPECT_NEAR(y[0][i], w[i], t * 100 * 0x1p-53) << "step " << t;  // some 50 roundings a step, of numbers below 2
    }
    feed["w"] = y[0], feed["row"] = y[1], feed["col"] = y[2];
  }
}

// A gradient of nothing moves nothing but the decay, whatever the moments.
TEST(Adafactor, NoGradientNoStep) {
  const Built b = build_op(*find_op("adafactor"), parse_operands(matrix("3", "4", "none")), AdafactorAttrs{});
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    Feed feed = b.feed;
    feed["g"] = std::vector<double>(12, 0.0);
    feed["row"] = std::vector<double>(3, 0.0), feed["col"] = std::vector<double>(4, 0.0);
    expect_same(Program(b, *device).run(feed)[0], feed["w"], "w");
  }
}

// Squares of gradients that no float holds, while their means are floats.
TEST(Adafactor, GradientsOfAnySize) {
  const Built b = build_op(*find_op("adafactor"), parse_operands(matrix("70", "300", "[]")), kRelative);
  for (const double size : {1e-18, 2e19, 1e25})
    for (const double scale : {1e-7, 1.0}) {
      Feed feed = b.feed;
      for (double& g : feed["g"]) g = double(float(g * size * (std::fabs(g) > 0.9 ? 4 : 0.1)));
      feed["row"] = std::vector<double>(70, 0.0), feed["col"] = std::vector<double>(300, 0.0);
      feed["gscale"] = {double(float(scale))};
      const Results expected = Program(b, reference_device()).run(feed);
      const Results actual = Program(b, *emulated_devices()[2]).run(feed);
      for (const size_t o : {1, 2})
        for (size_t i = 0; i < expected[o].size(); ++i) {
          const double y = expected[o][i];
          if (y < double(std::numeric_limits<float>::max()))
            EXPECT_NEAR(actual[o][i], y, 2 * 0x1p-24 * y + 0x1p-125) << size << " " << scale << " " << o << " " << i;
          else
            EXPECT_EQ(actual[o][i], INFINITY) << size << " " << scale << " " << o << " " << i;
        }
    }
}

TEST(Adafactor, AGradientScaleThatIsNotFiniteSkipsTheStep) {
  const Built m = build_op(*find_op("adafactor"), parse_operands(matrix("3", "4", "[]")), kRelative);
  const Built v = build_op(*find_op("adafactor_vector"), parse_operands(vector("[7]", "[]")), kRelative);
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]})
    for (const Built* b : {&m, &v}) {
      Feed feed = b->feed;
      feed["gscale"] = {NAN};
      feed["g"][3] = NAN;
      const Results y = Program(*b, *device).run(feed);
      expect_same(y[0], feed["w"], "w");
      expect_same(y[1], feed[b == &m ? "row" : "v"], "moment");
    }
}

}  // namespace
}  // namespace toy::test::adafactor_test

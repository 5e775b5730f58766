#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::layer_norm_test {
namespace {

constexpr double kU = unit_roundoff(DType::f32);

// One row and how far its normalized elements may be off, in units of u (derived in
// src/backend/cpu/rows/layer_norm.cpp).
struct Row {
  double rstd = 0, of_rstd = 0;
  std::vector<double> z, of_z;

  Row(const double* x, int64_t d, double eps) {
    const double D = double(d);
    double mean = 0, size = 0, squares = 0;
    for (int64_t k = 0; k < d; ++k) mean += x[k] / D, size += std::fabs(x[k]) / D;
    for (int64_t k = 0; k < d; ++k) squares += (x[k] - mean) * (x[k] - mean);
    rstd = 1 / std::sqrt(squares / D + eps);
    const double of_mean = (D / 64 + 8) * size, shift = of_mean * kU * rstd;
    of_rstd = D / 128 + 8 + shift * shift / 2 / kU;
    for (int64_t k = 0; k < d; ++k) {
      z.push_back((x[k] - mean) * rstd);
      of_z.push_back(of_mean * rstd + (of_rstd + 2) * std::fabs(z.back()));
    }
  }
};

std::vector<double> bound(const Run& r, int) {
  const int64_t d = r.shape(1)[0];
  const std::vector<double> x = r.in(0), w = r.in(1);
  std::vector<double> result(x.size());
  for (size_t n = 0; n < x.size() / size_t(d); ++n) {
    const Row row(x.data() + int64_t(n) * d, d, double(r.attrs().as<LayerNormAttrs>().eps));
    for (size_t k = 0; k < size_t(d); ++k) {
      const size_t i = n * size_t(d) + k;
      result[i] = std::fabs(w[k]) * (row.of_z[k] + 2 * std::fabs(row.z[k])) + std::fabs(r.out(0)[i]);
    }
  }
  return result;
}

const OpSuite kLayerNorm{
    .op = "layer_norm",
    .cases = {{"x:[1,1] w:[1] b:[1]", LayerNormAttrs{1e-2f}},
              {"x:[2,31] w:[31] b:none", LayerNormAttrs{}},
              {"x:[3,2,17] w:[17] b:[17]", LayerNormAttrs{1e-2f}},
              {"x:[4,5,32]@(1,0,2) w:[32] b:[32]", LayerNormAttrs{1e-3f}},
              {"x:[9,16]@(1,0) w:[9] b:none", LayerNormAttrs{}},
              {"x:[37,768] w:[768] b:[768]", LayerNormAttrs{}}},
    .bad = {{"x:[2,8] w:[8] b:none", "layer_norm: eps is inf, expected a small number, not below 0",
             LayerNormAttrs{INFINITY}},
            {"x:[2,8] w:[7] b:none", "layer_norm: w has D=7, x has D=8", LayerNormAttrs{}},
            {"x:[2,8] w:[8] b:[7]", "layer_norm: b has D=7, x has D=8", LayerNormAttrs{}},
            {"x:[2,8] w:none b:[8]", "layer_norm: input w is missing", LayerNormAttrs{}},
            {"x:[2,8] w:f16[8] b:none", "layer_norm: w is f16, x is f32; cast one of them", LayerNormAttrs{}}},
    .bound = bound,
    .rows = {"x"}};

// A mean that is large beside the spread (too large for the steps of finite differences).
const OpSuite kShifted{.op = "layer_norm",
                       .cases = {{"x:[3,67]=range(1000,1001) w:[67] b:[67]", LayerNormAttrs{}}},
                       .bound = bound,
                       .loss_outputs = {}};

// With g = w dy: dx = rstd (g - mean(g) - z mean(g z)), dw = sum dy z, db = sum dy. The means are sums of D terms, z
// and rstd are off as above; columns are summed in chunks of 64 rows.
std::vector<double> grad_bound(const Run& r, int o) {
  const int64_t d = r.shape(1)[0];
  const std::vector<double> x = r.in(0), w = r.in(1), dy = r.in(2);
  const double D = double(d), N = double(x.size()) / D;
  std::vector<double> result(r.out(o).size());
  for (size_t n = 0; n < x.size() / size_t(d); ++n) {
    const Row row(x.data() + int64_t(n) * d, d, double(r.attrs().as<LayerNormAttrs>().eps));
    double mean_g = 0, mean_gz = 0, mean_g_of_z = 0;
    for (size_t k = 0; k < size_t(d); ++k) {
      const double g = std::fabs(w[k] * dy[n * size_t(d) + k]);
      mean_g += g / D, mean_gz += g * std::fabs(row.z[k]) / D, mean_g_of_z += g * row.of_z[k] / D;
    }
    for (size_t k = 0; k < size_t(d); ++k) {
      const size_t i = n * size_t(d) + k;
      const double z = std::fabs(row.z[k]), g = std::fabs(w[k] * dy[i]);
      if (o == 0)
        result[i] = row.rstd * ((row.of_rstd + 4) * (g + mean_g + z * mean_gz) + g + (D / 64 + 10) * mean_g +
                                row.of_z[k] * mean_gz + z * ((D / 64 + 11) * mean_gz + mean_g_of_z));
      else
        result[k] += std::fabs(dy[i]) * (o == 1 ? row.of_z[k] + (66 + N / 64) * z : 64 + N / 64);
    }
  }
  return result;
}

const OpSuite kLayerNormGrad{
    .op = "layer_norm_grad",
    .cases = {{"x:[1,1] w:[1] dy:[1,1]", LayerNormAttrs{1e-2f}},
              {"x:[3,31] w:[31] dy:[3,31]", LayerNormAttrs{1e-3f}},
              {"x:[2,3,8] w:[8] dy:[3,2,8]@(1,0,2)", LayerNormAttrs{}},
              {"x:[64,20] w:[20] dy:[64,20]", LayerNormAttrs{}},
              {"x:[5,67]=range(1000,1001) w:[67] dy:[5,67]", LayerNormAttrs{}},
              {"x:[150,67] w:[67] dy:[150,67]", LayerNormAttrs{}}},
    .bad = {{"x:[2,8] w:[8] dy:[3,8]", "layer_norm_grad: dy has leading dimensions [3], x has [2]", LayerNormAttrs{}}},
    .bound = grad_bound,
    .rows = {"x", "dy"}};

const bool kDone = register_suite(kLayerNorm) && register_suite(kShifted) && register_suite(kLayerNormGrad);

// Powers of two that a shift by 2^20 leaves exact: the mean moves, the bits of the result do not. One pass of squares
// in f32 would lose the variance altogether.
TEST(LayerNorm, ALargeMeanCostsNothing) {
  Built b = build_op(*find_op("layer_norm"), parse_operands("x:[3,64] w:[64] b:[64]"), LayerNormAttrs{});
  auto& x = b.feed["x"];
  for (size_t i = 0; i < x.size(); ++i) x[i] = double(i * 37 % 64) / 8 - 31.5 / 8;  // each row: mean zero
  Program program(b, cpu_device(2));
  const Results centred = program.run();
  Feed shifted = b.feed;
  for (double& v : shifted["x"]) v += 0x1p+17;
  expect_same(program.run(shifted)[0], centred[0], "shifted");
}

}  // namespace
}  // namespace toy::test::layer_norm_test

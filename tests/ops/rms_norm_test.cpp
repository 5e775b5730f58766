#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"

namespace toy::test::rms_norm_test {
namespace {

double width(const Run& r) { return double(r.shape(1)[0]); }

// A sum of D terms over 64 lanes and their tree is within (D/64 + 8) u. rstd has half of it, 1 for eps, 2 for root and
// quotient; y 2 products more.
double of_sum(double D) { return D / 64 + 8; }
double of_rstd(double D) { return of_sum(D) / 2 + 3; }
const OpSuite kRmsNorm{
    .op = "rms_norm",
    .cases = {{"x:[1,1] w:[1]", RmsNormAttrs{}},
              {"x:[2,31] w:[31]", RmsNormAttrs{}},
              {"x:[3,2,17] w:[17]", RmsNormAttrs{1e-2f}},
              {"x:[4,5,32]@(1,0,2) w:[32]", RmsNormAttrs{1e-3f}},
              {"x:[9,16]@(1,0) w:[9]", RmsNormAttrs{}},
              {"x:[37,576] w:[576]", RmsNormAttrs{1e-5f}}},
    .bad = {{"x:[2,8] w:[7]", "rms_norm: w has D=7, x has D=8"},
            {"x:[2,8] w:[8]", "rms_norm: eps is -1, expected a small number, not below 0", RmsNormAttrs{-1}},
            {"x:[2,8] w:[8]", "rms_norm: eps is nan, expected a small number, not below 0", RmsNormAttrs{NAN}},
            {"x:[] w:[7]", "rms_norm: x has 0 dimensions [], expected at least 1"},
            {"x:[2,8] w:[1,8]", "rms_norm: w has 2 dimensions [1,8], expected 1"},
            {"x:[2,8] w:bf16[8]", "rms_norm: w is bf16, x is f32; cast one of them"},
            {"x:i32[8]=below(3) w:[8]", "rms_norm: x is i32, expected a float type"},
            {"x:[2,8]", "rms_norm: 1 inputs given, expected rms_norm(x:[*,D], w:[D]) -> y:[*,D]"},
            {"x:[2,8] w:none", "rms_norm: input w is missing"}},
    .bound = relative([](const Run& r) { return of_rstd(width(r)) + 2; }),
    .rows = {"x"}};
const OpSuite kOneRow{.op = "rms_norm", .cases = {{"x:[13] w:[13]", RmsNormAttrs{}}}, .bound = kRmsNorm.bound};
const bool kNormDone = register_suite(kRmsNorm) && register_suite(kOneRow);

// dx_k = rstd (w_k dy_k - x_k rstd^2/D sum_j w_j dy_j x_j): the roundings of each term, those of the sum and 2 of its
// terms, three times those of rstd. dw_k = sum_n dy_nk x_nk rstd_n: N additions, 2 products and rstd's.
std::vector<double> grad_bound(const Run& r, int o) {
  const double D = width(r), e = of_rstd(D);
  const int64_t d = r.shape(1)[0];
  const std::vector<double> x = r.in(0), w = r.in(1), dy = r.in(2);
  const int64_t rows = int64_t(x.size()) / d;
  std::vector<double> bound(r.out(o).size());
  for (int64_t n = 0; n < rows; ++n) {
    double squares = 0, dot = 0;
    for (int64_t k = 0; k < d; ++k) {
      const size_t i = size_t(n * d + k);
      squares += x[i] * x[i];
      dot += std::fabs(w[size_t(k)] * dy[i] * x[i]);
    }
    const double rstd = 1 / std::sqrt(squares / D + double(r.attrs().as<RmsNormAttrs>().eps));
    for (int64_t k = 0; k < d; ++k) {
      const size_t i = size_t(n * d + k);
      if (o == 0)
        bound[i] = (3 * e + of_sum(D) + 10) * rstd *
                   (std::fabs(w[size_t(k)] * dy[i]) + std::fabs(x[i]) * rstd * rstd / D * dot);
      else
        bound[size_t(k)] += (e + double(rows) + 3) * std::fabs(dy[i] * x[i]) * rstd;
    }
  }
  return bound;
}

const OpSuite kRmsNormGrad{
    .op = "rms_norm_grad",
    .cases = {{"x:[1,1] w:[1] dy:[1,1]", RmsNormAttrs{}},
              {"x:[3,31] w:[31] dy:[3,31]", RmsNormAttrs{1e-3f}},
              {"x:[2,3,8] w:[8] dy:[3,2,8]@(1,0,2)", RmsNormAttrs{}},
              {"x:[64,20] w:[20] dy:[64,20]", RmsNormAttrs{}},
              {"x:[150,67] w:[67] dy:[150,67]", RmsNormAttrs{1e-5f}}},
    .bad = {{"x:[2,8] w:[8] dy:[3,8]", "rms_norm_grad: dy has leading dimensions [3], x has [2]"}},
    .bound = grad_bound,
    .rows = {"x", "dy"}};
const bool kGradDone = register_suite(kRmsNormGrad);

}  // namespace
}  // namespace toy::test::rms_norm_test

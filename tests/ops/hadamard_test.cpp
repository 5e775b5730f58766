// The product with a Hadamard matrix: log2 n stages, each one rounding of sum |x| / sqrt(n), which is what the op says
// of magnitudes in its first element; the factor and its product are two more.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::hadamard_test {
namespace {

// sum |x| of a block, over sqrt(n), times the roundings.
std::vector<double> bound(const Run& r, int) {
  const std::vector<double> x = r.in(0);
  const auto width = uint64_t(r.shape(0)[2]);
  const size_t n = size_t(1) << std::countr_zero(width);
  std::vector<double> b(x.size());
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double sum = 0;
    for (size_t i = begin; i < begin + n; ++i) sum += std::fabs(x[i]);
    std::fill_n(b.begin() + int64_t(begin), n, sum / std::sqrt(double(n)) * (std::countr_zero(width) + 2));
  }
  return b;
}

const OpSuite kHadamard{.op = "hadamard",
                        .cases = {{"x:[1,1,1]"},
                                  {"x:[3,2,2]"},
                                  {"x:[2,3,4]"},
                                  {"x:[2,1,7]"},
                                  {"x:[5,3,8]"},
                                  {"x:[9,3,64]"},
                                  {"x:[3,5,64]@(1,0,2)"},
                                  {"x:[4,3,96]"},
                                  {"x:[3,2,160]"},
                                  {"x:[2,1,256]"},
                                  {"x:[1,2,1024]"}},
                        .bad = {{"x:[7,13]", "hadamard: x has 2 dimensions [7,13], expected 3"}},
                        .bound = bound,
                        .rows = {"x"}};
const bool kDone = register_suite(kHadamard);

// Sylvester's matrix: element i of the result is sum_j (-1)^popcount(i & j) x_j / sqrt(n), block by block.
TEST(Hadamard, IsSylvestersMatrix) {
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[0]})
    for (const int width : {1, 4, 32, 96}) {
      const unsigned n = 1u << std::countr_zero(unsigned(width));
      const Built b = build_op(*find_op("hadamard"), parse_operands("x:[2,3," + std::to_string(width) + "]"), {});
      const std::vector<double> x = b.feed.at("x"), y = Program(b, *device).run()[0];
      for (size_t i = 0; i < y.size(); ++i) {
        double sum = 0;
        for (unsigned j = 0; j < n; ++j) sum += (std::popcount(unsigned(i % n) & j) % 2 ? -1 : 1) * x[i / n * n + j];
        EXPECT_NEAR(y[i], sum / std::sqrt(double(n)), 1e-5) << width << " " << i;
      }
    }
}

}  // namespace
}  // namespace toy::test::hadamard_test

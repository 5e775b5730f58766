// Partial sums, each rounded once: u |y| and what n additions make of sum |x|. These are in f64 on the cpu, and in
// pairs of floats on GPUs: 2u^2 each, which is more.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::cumsum_test {
namespace {

std::vector<double> bound(const Run& r, int o) {
  std::vector<double> b = r.of_magnitudes(o);
  const double n = double(r.shape(0)[r.attrs().as<CumsumAttrs>().axis]);
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::fabs(r.out(o)[i]) + n * 2 * 0x1p-24 * b[i];
  return b;
}

const OpSuite kCumsum{.op = "cumsum",
                      .cases = {{"x:[1]", CumsumAttrs{0, false}},
                                {"x:[33]", CumsumAttrs{0, false}},
                                {"x:[7,13]", CumsumAttrs{0, false}},
                                {"x:[7,13]", CumsumAttrs{0, true}},
                                {"x:[7,13]", CumsumAttrs{1, false}},
                                {"x:[7,13]", CumsumAttrs{1, true}},
                                {"x:[3,4,5]@(2,0,1)", CumsumAttrs{1, false}},
                                {"x:[2,3,2,3,2]", CumsumAttrs{2, true}},
                                {"x:[31,401]", CumsumAttrs{0, true}},
                                {"x:[67,301]", CumsumAttrs{1, false}},
                                {"x:[9001]", CumsumAttrs{0, false}}},
                      .bad = {{"x:[7,13]", "cumsum: axis 2 of 2 dimensions", CumsumAttrs{2, false}},
                              {"x:[]", "cumsum: axis 0 of 0 dimensions", CumsumAttrs{0, false}},
                              {"x:[7,13]", "cumsum: axis -1 of 2 dimensions", CumsumAttrs{-1, true}},
                              {"x:i32[3]=below(2)", "cumsum: x is i32, expected a float type", CumsumAttrs{0, false}}},
                      .bound = bound};
const OpSuite kCumsumRows{.op = "cumsum",
                          .cases = {{"x:[9,13]", CumsumAttrs{0, false}}, {"x:[9,13]", CumsumAttrs{1, true}}},
                          .bound = bound,
                          .rows = {"x"}};
const OpSuite kCumsumFromTheEnd{
    .op = "cumsum", .cases = {{"x:[9,13]", CumsumAttrs{0, true}}}, .bound = bound, .rows = {"x"}, .row_wise = false};
const bool kDone = register_suite(kCumsum) && register_suite(kCumsumRows) && register_suite(kCumsumFromTheEnd);

TEST(Cumsum, BothEndsIncluded) {
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const bool reverse : {false, true}) {
      Built b = build_op(*find_op("cumsum"), parse_operands("x:[4]=list(1,2,4,8)"), CumsumAttrs{0, reverse});
      EXPECT_EQ(Program(b, *device).run()[0],
                reverse ? (std::vector<double>{15, 14, 12, 8}) : (std::vector<double>{1, 3, 7, 15}));
    }
}

}  // namespace
}  // namespace toy::test::cumsum_test

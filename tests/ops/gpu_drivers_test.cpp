// Every case of every op through a GPU's driver: the bits of the device emulated, which the other tests compare with
// the reference. In CI that driver is PoCL; with a GPU it is CUDA's, too.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"

namespace toy::test::gpu_drivers_test {
namespace {

// In parts, for each kernel is compiled first, which takes PoCL half a second.
constexpr int kParts = 4;

class OpsOnGpu : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "drivers leak and race by themselves";
    try {
      gpu_ = std::get<0>(GetParam()) == std::string("cuda") ? make_cuda_device() : make_opencl_device();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      GTEST_SKIP() << e.what();
    }
  }
  int part() const { return std::get<1>(GetParam()); }

  std::unique_ptr<Device> gpu_;
  std::unique_ptr<Device> emulated_ = make_emulated_device();
};

// How far a library's products in bf16 may be from toy's. Both begin with the same rounded operands, so each is within
// the op's bound for any order of the sum; tensor cores may cut where others round, which doubles a rounding. Gradients
// of the loss are rounded to bf16 on the way: where the last bit of one differs, so does that product, by 2^-8.
std::vector<double> bound_of_library(const OpSuite& suite, const Case& c, const Results& expected, size_t o) {
  constexpr double kUnit = 0x1p-24;
  if (suite.op == "linear_xent") {
    double most = 1;
    for (const double v : expected[o])
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
    return std::vector<double>(expected[o].size(), 0x1p-8 * most);
  }
  std::vector<double> bound = suite.bound(Run(suite, c), int(o));
  for (double& b : bound) b *= 4 * kUnit;
  return bound;
}

TEST_P(OpsOnGpu, HaveTheBitsOfEmulated) {
  int compared = 0;
  for (size_t i = size_t(part()); i < all_suites().size(); i += kParts) {
    const OpSuite& suite = *all_suites()[i];
    for (const Case& c : suite.cases)
      for (const Built& b : graphs_of(suite, c)) {
        Results expected;
        try {
          expected = Program(b, *emulated_).run();
        } catch (const Error&) {
          continue;  // GPUs have no kernel for it
        }
        const Results actual = Program(b, *gpu_).run();
        for (size_t o = 0; o < expected.size(); ++o)
          expect_same(actual[o], expected[o], suite.op + " of " + c.operands + ", output " + std::to_string(o));
        ++compared;
        if (HasFatalFailure()) return;
      }
  }
  EXPECT_GT(compared, 0);
}

// Products in bf16: a library may compute them (cuBLASLt), in its own order.
TEST_P(OpsOnGpu, ProductsInBf16AreThoseOfEmulated) {
  const bool by_library = gpu_->arithmetic(DType::bf16) != gpu_->arithmetic(DType::f32);
  int compared = 0, number = 0;
  for (const OpSuite* suite : all_suites()) {
    if (!suite->op.starts_with("linear")) continue;
    for (const Case& c : suite->cases) {
      if (number++ % kParts != part()) continue;
      std::vector<Built> graphs = graphs_of(*suite, c);
      if (by_library) graphs.resize(1);  // products of gradients have suites of their own
      for (const Built& b : graphs) {
        const Results expected = Program(b, *emulated_, {.products = DType::bf16}).run();
        const Results actual = Program(b, *gpu_, {.products = DType::bf16}).run();
        for (size_t o = 0; o < expected.size(); ++o) {
          const std::string what = suite->op + " of " + c.operands + ", output " + std::to_string(o);
          if (!by_library) expect_same(actual[o], expected[o], what);
          const std::vector<double> bound =
              by_library ? bound_of_library(*suite, c, expected, o) : std::vector<double>();
          ASSERT_EQ(actual[o].size(), expected[o].size());
          for (size_t i = 0; i < bound.size(); ++i)
            if (std::isfinite(expected[o][i])) {
              EXPECT_NEAR(actual[o][i], expected[o][i], bound[i]) << what;
            }
        }
        ++compared;
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(All, OpsOnGpu,
                         ::testing::Combine(::testing::Values("opencl", "cuda"), ::testing::Range(0, kParts)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace toy::test::gpu_drivers_test

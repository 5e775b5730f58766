// Every case of every op through a GPU's driver: the bits of the device emulated, which the other tests compare with
// the reference. In CI that driver is PoCL; with a GPU it is CUDA's, too.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"

namespace toy::test {
namespace {

// In parts, for each kernel is compiled first, which takes PoCL half a second.
constexpr int kParts = 4;

class OpsOnGpu : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(OpsOnGpu, HaveTheBitsOfEmulated) {
  if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "drivers leak and race by themselves";
  const auto [name, part] = GetParam();
  std::unique_ptr<Device> gpu;
  try {
    gpu = name == std::string("cuda") ? make_cuda_device() : make_opencl_device();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    GTEST_SKIP() << e.what();
  }
  const auto emulated = make_emulated_device();
  int compared = 0;
  for (size_t i = size_t(part); i < all_suites().size(); i += kParts) {
    const OpSuite& suite = *all_suites()[i];
    for (const Case& c : suite.cases)
      for (const Built& b : graphs_of(suite, c)) {
        Results expected;
        try {
          expected = Program(b, *emulated).run();
        } catch (const Error&) {
          continue;  // GPUs have no kernel for it
        }
        const Results actual = Program(b, *gpu).run();
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
  if (testing::kAddressSanitizer || testing::kThreadSanitizer) GTEST_SKIP() << "drivers leak and race by themselves";
  const auto [name, part] = GetParam();
  std::unique_ptr<Device> gpu;
  try {
    gpu = name == std::string("cuda") ? make_cuda_device() : make_opencl_device();
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const auto emulated = make_emulated_device();
  const bool by_library = gpu->arithmetic(DType::bf16) != gpu->arithmetic(DType::f32);
  int compared = 0, number = 0;
  for (const OpSuite* suite : all_suites()) {
    if (!suite->op.starts_with("linear")) continue;
    for (const Case& c : suite->cases) {
      if (number++ % kParts != part) continue;
      for (const Built& b : graphs_of(*suite, c)) {
        const Results expected = Program(b, *emulated, {.products = DType::bf16}).run();
        const Results actual = Program(b, *gpu, {.products = DType::bf16}).run();
        for (size_t o = 0; o < expected.size(); ++o) {
          const std::string what = suite->op + " of " + c.operands + ", output " + std::to_string(o);
          if (!by_library) expect_same(actual[o], expected[o], what);
          double most = 1;
          for (const double v : expected[o]) most = std::max(most, std::isfinite(v) ? std::abs(v) : 0);
          ASSERT_EQ(actual[o].size(), expected[o].size());
          for (size_t i = 0; i < expected[o].size(); ++i)
            if (std::isfinite(expected[o][i])) {
              EXPECT_NEAR(actual[o][i], expected[o][i], 1e-4 * most) << what;
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
}  // namespace toy::test

// The norm of all gradients and the factor that clips it. The cpu adds squares in f64, which is n 2^-53, GPUs in pairs
// of floats: 3u^2 for each addition that a square goes through, and no more than 64 of these here. The root halves
// that, and adds u + 5u^2.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::clip_test {
namespace {

const OpSuite kNorm{.op = "global_norm",
                    .cases = {{"a:[1]"},
                              {"a:[]"},
                              {"a:[3,5] b:[7] c:[2,2,2]"},
                              {"a:[5,3]@(1,0) b:[4]"},
                              {"a:[67,131] b:[33] c:[5000]=range(-1e18,1e18)"},
                              {"a:[4096] b:[4097] c:[12289]"},
                              {"a:[300]=range(-1e30,1e30) b:[7]"},
                              {"a:[33]=range(1e-30,2e-30) b:[8193]=range(-1e-25,1e-25)"},
                              {"a:[5]=range(1e-30,2e-30) b:[2]=range(1e30,2e30) c:[3]"}},
                    .bad = {{"", "global_norm: 0 inputs given, expected global_norm(gs...:[...]) -> norm:[]"},
                            {"a:[3] b:bf16[3]", "global_norm: gs[1] is bf16, gs[0] is f32; cast one of them"}},
                    .bound = relative(1 + (64 * 1.5 + 5) * 0x1p-24)};

const OpSuite kClip{.op = "clip_scale",
                    .cases = {{"norm:[]=const(0.5) limit:[]=const(1)"},
                              {"norm:[]=const(1) limit:[]=const(1)"},
                              {"norm:[]=const(7.3) limit:[]=const(1)"},
                              {"norm:[]=const(0) limit:[]=const(1)"}},
                    .bad = {{"norm:[1] limit:[]", "clip_scale: norm has 1 dimensions [1], expected 0"}},
                    .bound = relative(1)};

const bool kDone = register_suite(kNorm) && register_suite(kClip);

TEST(Clip, ANormThatIsNotFiniteGivesNoScale) {
  const Built b = build_op(*find_op("clip_scale"), parse_operands("norm:[] limit:[]=const(1)"), {});
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const double norm : {double(NAN), double(INFINITY)}) {
      Feed feed = b.feed;
      feed["norm"] = {norm};
      EXPECT_FALSE(std::isfinite(Program(b, *device).run(feed)[0][0])) << device->name() << norm;
    }
}

TEST(Clip, ANonFiniteGradientReachesTheNorm) {
  const Built b = build_op(*find_op("global_norm"), parse_operands("a:[4097] b:[3]"), {});
  for (Device* device : {&cpu_device(2), &reference_device()})
    for (const double bad : {double(NAN), double(INFINITY)}) {
      Feed feed = b.feed;
      feed["a"][4096] = bad;
      EXPECT_FALSE(std::isfinite(Program(b, *device).run(feed)[0][0])) << device->name() << bad;
    }
}

}  // namespace
}  // namespace toy::test::clip_test

// The norm of all gradients and the factor that clips it. Squares are summed in f64: n 2^-53 and one rounding
// to f32.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test {
namespace {

double elements(const Run& r) {
  double n = 0;
  for (int i = 0; r.has(i); ++i) n += double(r.shape(i).count());
  return n;
}

const OpSuite kNorm{.op = "global_norm",
                    .cases = {{"a:[1]"},
                              {"a:[]"},
                              {"a:[3,5] b:[7] c:[2,2,2]"},
                              {"a:[5,3]@(1,0) b:[4]"},
                              {"a:[67,131] b:[33] c:[5000]=range(-1e18,1e18)"},
                              {"a:[4096] b:[4097] c:[12289]"}},
                    .bad = {{"", "global_norm: 0 inputs given, expected global_norm(gs...:[...]) -> norm:[]"},
                            {"a:[3] b:bf16[3]", "global_norm: gs[1] is bf16, gs[0] is f32; cast one of them"}},
                    .bound = relative([](const Run& r) { return 1 + elements(r) * 0x1p-29; })};

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
}  // namespace toy::test

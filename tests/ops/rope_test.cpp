// Rotations: two products and a sum, so within 2u of |x0 c| + |x1 s|.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::rope_test {
namespace {

std::vector<double> bound(const Run& r, int) {
  const Shape shape = r.shape(0), table_shape = r.shape(2);
  const std::vector<double> x = r.in(0), pos = r.in(1), table = r.in(2);
  const int64_t heads = shape[1], width = shape[2], pairs = table_shape[1];
  const bool half = r.attrs().as<RopeAttrs>().pairing == RopePairing::half;
  std::vector<double> result(x.size());
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < pairs; ++i) {
        const size_t row = size_t((n * heads + h) * width), at = size_t((int64_t(pos[size_t(n)]) * pairs + i) * 2);
        const size_t i0 = row + size_t(half ? i : 2 * i), i1 = row + size_t(half ? i + pairs : 2 * i + 1);
        const double c = std::fabs(table[at]), s = std::fabs(table[at + 1]), x0 = std::fabs(x[i0]),
                     x1 = std::fabs(x[i1]);
        result[i0] = 2 * (x0 * c + x1 * s);
        result[i1] = 2 * (x0 * s + x1 * c);
      }
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const RopePairing pairing : {RopePairing::neighbour, RopePairing::half})
    for (const bool inverse : {false, true})
      for (const char* operands :
           {"x:[1,1,2] pos:i32[1]=list(0) table:[1,1,2]=angles", "x:[5,3,8] pos:i32[5]=below(9) table:[9,4,2]=angles",
            "x:[5,3,14] pos:i32[5]=below(9) table:[9,4,2]=angles",
            "x:[3,5,6]@(1,0,2) pos:i32[5]=runs(3@6,2@0) table:[9,3,2]=angles",
            "x:[41,3,64] pos:i32[41]=runs(41@5) table:[50,32,2]=angles"})
        list.push_back({operands, RopeAttrs{pairing, inverse}});
  return list;
}

const OpSuite kRope{
    .op = "rope",
    .cases = cases(),
    .bad = {{"x:[5,3,8] pos:i32[5]=below(9) table:[9,5,2]", "rope: the table rotates 2 x 5 elements, a head has P=8",
             RopeAttrs{}},
            {"x:[5,3,8] pos:i32[4]=below(9) table:[9,4,2]", "rope: pos has N=4, x has N=5", RopeAttrs{}},
            {"x:[5,3,8] pos:i32[5]=below(9) table:[9,4,3]", "rope: table has 3 in dimension 2, expected 2",
             RopeAttrs{}}},
    .bound = bound,
    .no_gradient = {"table"},
    .rows = {"x", "pos"}};
const bool kDone = register_suite(kRope);

TEST(Rope, InverseUndoesIt) {
  for (const RopePairing pairing : {RopePairing::neighbour, RopePairing::half}) {
    Built b = build_operands(parse_operands("x:[5,3,10] pos:i32[5]=below(9) table:[9,4,2]=angles"));
    b.outputs = {rope(rope(b.operands[0], b.operands[1], b.operands[2], {pairing, false}), b.operands[1], b.operands[2],
                      {pairing, true})};
    const Results y = Program(b, reference_device()).run();
    // The table itself holds f32 values, so cos^2 + sin^2 is 1 within 4 of their roundings.
    for (size_t i = 0; i < y[0].size(); ++i) EXPECT_NEAR(y[0][i], b.feed["x"][i], 6 * unit_roundoff(DType::f32));
  }
}

TEST(Rope, PositionsOutsideOfTheTableAreNamed) {
  const Built b =
      build_op(*find_op("rope"), parse_operands("x:[2,1,2] pos:i32[2]=list(0,9) table:[9,1,2]=angles"), RopeAttrs{});
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Program program(b, *device);
    try {
      program.run();
      FAIL();
    } catch (const Error& e) {  // the reference looks the rows of the table up
      EXPECT_STREQ(e.what(),
                   device == &reference_device() ? "embedding: row 1 has id 9" : "rope: row 1 has position 9");
    }
  }
}

TEST(Rope, TheTableHasNoGradient) {
  Built b =
      build_op(*find_op("rope"), parse_operands("x:[2,1,2] pos:i32[2]=list(0,1) table:[9,1,2]=angles"), RopeAttrs{});
  EXPECT_THROW(ask_for_gradients(b, {0}, {b.leaves[2]}), Error);
}

}  // namespace
}  // namespace toy::test::rope_test

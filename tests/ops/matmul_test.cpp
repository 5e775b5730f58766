// Products. A sum of K products in any order, fused or not, is within (K + 1) u sum |a b|.
#include <gtest/gtest.h>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::matmul_test {
namespace {

Attrs transposed(bool a, bool b) { return MatmulAttrs{a, b}; }

double inner(const Run& r) {
  const Shape s = r.shape(0);
  return double(r.attrs().as<MatmulAttrs>().transpose_a ? s.back(1) : s.back(0));
}

const OpSuite kMatmul{
    .op = "matmul",
    .cases = {{"a:[1,1] b:[1,1]", transposed(false, false)},
              {"a:[3,5] b:[5,7]", transposed(false, false)},
              {"a:[5,3] b:[5,7]", transposed(true, false)},
              {"a:[3,5] b:[7,5]", transposed(false, true)},
              {"a:[5,3] b:[7,5]", transposed(true, true)},
              {"a:[2,3,5] b:[2,5,4]", transposed(false, false)},
              {"a:[2,3,4,5]@(1,0,2,3) b:[3,2,6,5]", transposed(false, true)},
              {"a:[5,3]@(1,0) b:[7,5]@(1,0)", transposed(false, false)},
              {"a:[2,65,33] b:[2,33,70]", transposed(false, false)},
              {"a:[2,3,5] b:[5,4]", transposed(false, false)},
              {"a:[5,3] b:[4,7,5]", transposed(true, true)},
              {"a:[2,1,3,5] b:[4,5,2]", transposed(false, false)},
              {"a:[3,1,5,2] b:[1,4,6,5]", transposed(true, true)},
              {"a:[2,3,4,5]@(1,0,2,3) b:[2,6,5]", transposed(false, true)},
              {"a:[130,67] b:[130,131]", transposed(true, false)}},
    .bad = {{"a:[3,5] b:[4,7]", "matmul: a has K=5, b has K=4", transposed(false, false)},
            {"a:[3,5] b:[5]", "matmul: a is f32[3,5], b is f32[5]; both need at least 2 dimensions",
             transposed(false, false)},
            {"a:[2,3,5] b:[3,5,4]", "matmul: a is f32[2,3,5], b is f32[3,5,4]; leading dimensions do not broadcast",
             transposed(false, false)}},
    .bound = of_magnitudes([](const Run& r) { return inner(r) + 1; })};
const bool kDone = register_suite(kMatmul);

}  // namespace
}  // namespace toy::test::matmul_test

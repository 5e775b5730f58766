// The k largest elements of each row, and where they are.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test {
namespace {

const OpSuite kTopK{.op = "top_k",
                    .cases = {{"x:[1,1]", TopKAttrs{1}},
                              {"x:[5,7]", TopKAttrs{3}},
                              {"x:[4,6]", TopKAttrs{6}},
                              {"x:[6,9]@(1,0)", TopKAttrs{2}},
                              {"x:[131,40]", TopKAttrs{8}},
                              {"x:[3,700]", TopKAttrs{1}}},
                    .bad = {{"x:[3,4]", "top_k: k is 5, expected 1 to E=4", TopKAttrs{5}},
                            {"x:[3,4]", "top_k: k is 0, expected 1 to E=4", TopKAttrs{0}}},
                    .bound = exact(),
                    .rows = {"x"}};
const bool kDone = register_suite(kTopK);

Results run(Device& device, const std::string& x, int64_t k) {
  return Program(build_op(*find_op("top_k"), parse_operands(x), TopKAttrs{k}), device).run();
}

TEST(TopK, EqualOnesInOrderOfTheirPlaces) {
  for (Device* device : {&cpu_device(2), &reference_device(), emulated_devices()[2]}) {
    const Results one = run(*device, "x:[2,5]=list(1,3,3,0,3,2,2,1,2,2)", 1);
    EXPECT_EQ(one[0], (std::vector<double>{3, 2})) << device->name();
    EXPECT_EQ(one[1], (std::vector<double>{1, 0})) << device->name();
    const Results y = run(*device, "x:[2,6]=list(1,3,2,3,0,3,5,5,5,5,5,5)", 4);
    EXPECT_EQ(y[0], (std::vector<double>{3, 3, 3, 2, 5, 5, 5, 5})) << device->name();
    EXPECT_EQ(y[1], (std::vector<double>{1, 3, 5, 2, 0, 1, 2, 3})) << device->name();
  }
}

TEST(TopK, NanIsSmallest) {
  for (Device* device : {&cpu_device(1), &reference_device(), emulated_devices()[1]}) {
    Built one = build_op(*find_op("top_k"), parse_operands("x:[2,3]=list(0,-1,0,0,0,0)"), TopKAttrs{1});
    one.feed["x"] = {NAN, -INFINITY, NAN, NAN, NAN, NAN};
    EXPECT_EQ(Program(one, *device).run()[1], (std::vector<double>{1, 0})) << device->name();
    Built b = build_op(*find_op("top_k"), parse_operands("x:[2,3]=list(0,-1,0,0,0,0)"), TopKAttrs{2});
    b.feed["x"] = {NAN, -INFINITY, 2, NAN, NAN, NAN};
    const Results y = Program(b, *device).run();
    EXPECT_EQ(y[1], (std::vector<double>{2, 1, 0, 1})) << device->name();
    EXPECT_EQ(y[0][0], 2);
    EXPECT_EQ(y[0][1], -INFINITY);
    EXPECT_TRUE(std::isnan(y[0][2]) && std::isnan(y[0][3]));
  }
}

}  // namespace
}  // namespace toy::test

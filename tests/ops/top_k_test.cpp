// The k largest elements of each row, and where they are.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>

#include "ops/harness.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"

namespace toy::test::top_k_test {
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

// Rows as long as a vocabulary, which several groups of a GPU share; also of few values, and with k near what they
// hold.
TEST(TopK, LongRows) {
  std::vector<Device*> devices = emulated_devices();
  std::unique_ptr<Device> opencl;
  if (!testing::kAddressSanitizer && !testing::kThreadSanitizer) try {
      devices.push_back((opencl = make_opencl_device()).get());
    } catch (const Error&) {  // there is none
    }
  for (const auto& [rows, columns, k] : {std::tuple<int64_t, int64_t, int64_t>{3, 70, 64},
                                         {3, 2048, 64},
                                         {2, 2049, 64},
                                         {2, 33000, 40},
                                         {1, 151936, 64},
                                         {1, 5000, 1024}})
    for (const int64_t values : {int64_t(5), int64_t(1) << 24}) {
      const std::string shape = "[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
      SCOPED_TRACE(shape + " " + std::to_string(k) + " " + std::to_string(values));
      Built b = build_op(*find_op("top_k"), parse_operands("x:" + shape), TopKAttrs{k});
      std::vector<double>& x = b.feed["x"];
      const Philox random(3, "x");
      for (size_t i = 0; i < x.size(); ++i) x[i] = double(random.below(i, uint64_t(values))) - double(values / 2);
      x[3] = NAN, x[7] = -INFINITY, x[size_t(columns) - 1] = INFINITY, x[5] = -0.0;
      const Results expected = Program(b, cpu_device(2)).run();
      EXPECT_EQ(expected[1][0], double(columns - 1));
      for (Device* device : devices) {
        const Results y = Program(b, *device).run();
        for (size_t o = 0; o < 2; ++o) expect_same(y[o], expected[o], "output " + std::to_string(o));
      }
    }
}

}  // namespace
}  // namespace toy::test::top_k_test

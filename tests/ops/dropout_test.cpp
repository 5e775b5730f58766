// Random zeros: the same mask everywhere and in backward, another one for another seed, step or stream.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::dropout_test {
namespace {

const OpSuite kDropout{
    .op = "dropout",
    .cases = {{"x:[1] random:i32[3]=list(1,2,3)", DropoutAttrs{0.5, 7}},
              {"x:[3,31] random:i32[3]=list(1,0,0)", DropoutAttrs{0.1, 0}},
              {"x:[5,4]@(1,0) random:i32[3]=list(-5,-1,2000000000)", DropoutAttrs{0.9, -1}},
              {"x:[67,130] random:i32[3]=list(17,3,4)", DropoutAttrs{0.3, 0x123456789abcdef}}},
    .bad = {{"x:[3] random:i32[3]=list(0,0,0)", "dropout: p is 1, expected 0 to below 1", DropoutAttrs{1, 0}},
            {"x:[3] random:i32[3]=list(0,0,0)", "dropout: p is -0.5, expected 0 to below 1", DropoutAttrs{-0.5, 0}},
            {"x:[3] random:i32[2]=list(0,0)", "dropout: random has 2 in dimension 0, expected 3", DropoutAttrs{0.1, 0}},
            {"x:[3] random:[3]", "dropout: random is f32, expected i32", DropoutAttrs{0.1, 0}}},
    .bound = relative(2),
    .rows = {"x"}};
const bool kDone = register_suite(kDropout);

std::vector<double> ones_dropped(Device& device, double p, int64_t stream, const std::string& random) {
  const Built b =
      build_op(*find_op("dropout"), parse_operands("x:[100000]=const(1) random:i32[3]=list(" + random + ")"),
               DropoutAttrs{p, stream});
  return Program(b, device).run()[0];
}

// Both devices drop the same elements, p of them (5 sigma of the binomial), and keep the mean.
TEST(Dropout, DropsPOfTheElementsAndKeepsTheMean) {
  for (const double p : {0.1, 0.5, 0.8}) {
    const auto expected = ones_dropped(reference_device(), p, 1, "1,2,3"),
               y = ones_dropped(cpu_device(3), p, 1, "1,2,3");
    double dropped = 0, sum = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i] == 0, expected[i] == 0) << i;
      dropped += y[i] == 0;
      sum += y[i];
    }
    const double n = double(y.size()), sigma = std::sqrt(p * (1 - p) / n);
    EXPECT_NEAR(dropped / n, p, 5 * sigma);
    EXPECT_NEAR(sum / n, 1, 5 * sigma / (1 - p));
  }
}

// Two masks agree in as many places as chance says.
TEST(Dropout, SeedStepAndStreamGiveOtherMasks) {
  const auto base = ones_dropped(cpu_device(2), 0.5, 1, "1,2,3");
  EXPECT_EQ(ones_dropped(cpu_device(1), 0.5, 1, "1,2,3"), base);
  const auto expect_independent = [&](const std::vector<double>& other) {
    double same = 0;
    for (size_t i = 0; i < base.size(); ++i) same += (base[i] == 0) == (other[i] == 0);
    const double n = double(base.size());
    EXPECT_NEAR(same / n, 0.5, 5 * 0.5 / std::sqrt(n));
  };
  for (const char* random : {"2,2,3", "1,3,3", "1,2,4"})
    expect_independent(ones_dropped(cpu_device(2), 0.5, 1, random));
  expect_independent(ones_dropped(cpu_device(2), 0.5, 2, "1,2,3"));
  expect_independent(ones_dropped(cpu_device(2), 0.5, 1 + (int64_t(1) << 32), "1,2,3"));
}

TEST(Dropout, WithoutPItIsNotThere) {
  Graph g;
  const Value x = g.input("x", {DType::f32, {3}, 0}), random = g.input("random", {DType::i32, {3}, 0});
  EXPECT_EQ(dropout(x, random, {0, 1}), x);
}

// What is dropped is gone, even if it is not a number.
TEST(Dropout, DroppedNaNsAreZero) {
  Built b = build_op(*find_op("dropout"), parse_operands("x:[1000]=const(1) random:i32[3]=list(1,2,3)"),
                     DropoutAttrs{0.5, 1});
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    Program program(b, *device);
    const Results mask = program.run();
    Feed feed = b.feed;
    feed["x"].assign(1000, NAN);
    const Results y = program.run(feed);
    for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(std::isnan(y[0][i]), mask[0][i] != 0) << i;
  }
}

}  // namespace
}  // namespace toy::test::dropout_test

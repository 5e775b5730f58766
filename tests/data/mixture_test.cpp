#include "toy/data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "testing/errors.h"

namespace toy::mixture_test {
namespace {

using testing::message_of;

// Every source's rows come once each, in nearly their order, and every block has the shares.
TEST(Mixture, SharesAndRows) {
  for (const std::vector<double>& weights :
       {std::vector<double>{3, 1}, {1}, {0, 2, 0, 1, 0}, {0.1, 0.2, 0.7}, {1e-9, 1}, {1, 1, 1, 1, 1, 1, 1}}) {
    const Mixture mixture(weights, 5);
    double sum = 0;
    for (const double w : weights) sum += w;
    std::vector<std::set<int64_t>> rows(weights.size());
    constexpr int64_t kBlocks = 12, kBlock = 1024;
    for (int64_t row = 0; row < kBlocks * kBlock; ++row) {
      const auto [source, of_source] = mixture.at(row);
      ASSERT_TRUE(rows[source].insert(of_source).second) << row;
      if (row % kBlock != kBlock - 1) continue;
      for (size_t s = 0; s < weights.size(); ++s) {
        const int64_t n = int64_t(rows[s].size());
        // Each of the sources before it may be off by one.
        EXPECT_NEAR(double(n), weights[s] / sum * double(row + 1), double(s) + 1) << s;
        EXPECT_TRUE(rows[s].empty() || (*rows[s].begin() == 0 && *rows[s].rbegin() == n - 1)) << s;
      }
    }
  }
}

TEST(Mixture, DependsOnTheSeedAndLooksRandom) {
  const std::vector<double> weights{1, 1};
  const Mixture a(weights, 1), again(weights, 1), b(weights, 2);
  int same = 0, changes = 0;
  for (int64_t row = 0; row < 4096; ++row) {
    EXPECT_EQ(a.at(row).source, again.at(row).source);
    same += a.at(row).source == b.at(row).source;
    changes += a.at(row).source != a.at(row + 1).source;
  }
  // 4096 tosses of a coin: 2048 with a standard deviation of 32, of which 6 are allowed.
  EXPECT_NEAR(same, 2048, 192);
  EXPECT_NEAR(changes, 2048, 192);
}

TEST(Mixture, AnyRowAtOnce) {
  const Mixture mixture(std::vector<double>{2, 1}, 3);
  const int64_t far = int64_t(1) << 50;
  const auto [source, row] = mixture.at(far);
  EXPECT_NEAR(double(row), double(far) * (source == 0 ? 2.0 / 3 : 1.0 / 3), double(far) * 0x1p-31);
}

TEST(Mixture, Refusals) {
  const auto message = [](const std::vector<double>& weights) { return message_of([&] { Mixture(weights, 0); }); };
  EXPECT_EQ(message({1, -2}), "corpus-weight is -2, expected 0 or more");
  EXPECT_EQ(message({std::nan(""), 1}), "corpus-weight is nan, expected 0 or more");
  EXPECT_EQ(message({0, 0}), "corpus-weight: all weights are 0, so there is nothing to train on; give one above 0");
  EXPECT_EQ(message({1, 1e-12}), "corpus-weight 1e-12 is too small for a sum of 1.000000000001");
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(message({most, most}), "corpus-weight: the weights are too large to be added up");
}

}  // namespace
}  // namespace toy::mixture_test

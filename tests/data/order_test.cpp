// The orders of rows that docs/data.md states, where they were computed by another program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "toy/base/philox.h"
#include "toy/data/mixture.h"
#include "toy/data/packing.h"

namespace toy::order_test {
namespace {

void expect_in_docs(const std::string& text) {
  std::ifstream file(std::string(TOY_SOURCE_DIR) + "/docs/data.md");
  std::stringstream docs;
  docs << file.rdbuf();
  EXPECT_NE(docs.str().find("| " + text + " |"), std::string::npos) << "docs/data.md does not say: " << text;
}

std::vector<int32_t> counted(int32_t n) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// First tokens of the windows of one epoch of 43 tokens, T = 4.
std::vector<int32_t> starts(uint64_t seed, int64_t epoch) {
  const std::vector<int32_t> ids = counted(43);
  const WindowSampler sampler(ids, 1, 4, seed);
  EXPECT_EQ(sampler.rows(), 9);
  std::vector<int32_t> out;
  for (int64_t row = 9 * epoch; row < 9 * epoch + 9; ++row) out.push_back(sampler.windows(row, 1).inputs[0]);
  return out;
}

TEST(Order, WindowsAreAsDocumented) {
  expect_in_docs(fmt::format("{}, {}", fmt::join(starts(1, 0), " "), fmt::join(starts(1, 1), " ")));
  expect_in_docs(fmt::format("{}", fmt::join(starts(1 ^ hash_name("source 1"), 0), " ")));
}

TEST(Order, PackedRowsAreAsDocumented) {
  const std::vector<int32_t> ids = counted(17);
  const std::vector<uint64_t> begins{0, 2, 5, 10, 13};  // of documents of 2, 3, 5, 3 and 4 tokens
  const PackedRows rows(ids, begins, ids.size(), 4, 1);
  std::vector<std::string> plan;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    const Windows w = rows.rows(row, 1);
    std::vector<std::string> pieces;
    for (size_t i = 0; i < w.inputs.size(); ++i)
      if (w.position[i] == 0 && w.sequence[i] >= 0)
        pieces.push_back(
            fmt::format("({}, {})", w.inputs[i], std::count(w.sequence.begin(), w.sequence.end(), w.sequence[i])));
    plan.push_back(fmt::format("{}", fmt::join(pieces, " ")));
  }
  expect_in_docs(fmt::format("{}", fmt::join(plan, "; ")));
}

TEST(Order, PackedEpochsAreAsDocumented) {
  const std::vector<int32_t> ids = counted(25);
  const std::vector<uint64_t> begins{0, 5, 10, 15, 20};  // five documents, each a row of its own
  const PackedRows rows(ids, begins, ids.size(), 4, 1);
  ASSERT_EQ(rows.rows(), 5);
  std::vector<int32_t> epochs[2];
  for (int64_t row = 0; row < 10; ++row) epochs[row / 5].push_back(rows.windows(row, 1).inputs[0] / 5);
  expect_in_docs(fmt::format("{}, {}", fmt::join(epochs[0], " "), fmt::join(epochs[1], " ")));
}

TEST(Order, MixturesAreAsDocumented) {
  const Mixture mixture(std::vector<double>{3, 1}, 1);
  std::vector<std::string> rows;
  for (int64_t row = 0; row < 8; ++row)
    rows.push_back(fmt::format("({}, {})", mixture.at(row).source, mixture.at(row).row));
  expect_in_docs(fmt::format("{}", fmt::join(rows, " ")));
}

}  // namespace
}  // namespace toy::order_test

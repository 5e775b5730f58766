#include "toy/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "testing/errors.h"
#include "toy/base/philox.h"

namespace toy::packing_test {
namespace {

using testing::message_of;

struct Documents {
  std::vector<int32_t> ids;  // id i at place i
  std::vector<uint64_t> begins;
};

Documents documents_of(const std::vector<int64_t>& lengths) {
  Documents d;
  for (const int64_t n : lengths) {
    d.begins.push_back(d.ids.size());
    for (int64_t i = 0; i < n; ++i) d.ids.push_back(int32_t(d.ids.size()));
  }
  return d;
}

PackedRows packed(const Documents& d, int64_t tokens, uint64_t seed = 1) {
  return {d.ids, d.begins, d.ids.size(), tokens, seed};
}

std::vector<int64_t> random_lengths(int64_t n, int64_t most) {
  std::vector<int64_t> lengths;
  const Philox random(4, "lengths");
  for (int64_t i = 0; i < n; ++i) lengths.push_back(1 + int64_t(random.below(uint64_t(i), uint64_t(most))));
  return lengths;
}

// Every target of every document comes exactly once an epoch, with the token before it as its input, in a sequence of
// its own whose positions count from 0; the rest is padding.
TEST(PackedRows, EveryTargetOnceAndNoneAcrossABorder) {
  constexpr int64_t kTokens = 16;
  const std::vector<int64_t> lengths = random_lengths(300, 50);
  const Documents d = documents_of(lengths);
  const PackedRows rows = packed(d, kTokens);
  int64_t long_ones = 0, single = 0, targets = 0;
  for (const int64_t n : lengths) long_ones += n > kTokens + 1, single += n == 1, targets += n - 1;
  EXPECT_EQ(rows.cut(), long_ones);
  EXPECT_EQ(rows.passed_over(), single);
  EXPECT_EQ(rows.targets(), targets);
  EXPECT_LE(rows.rows() * kTokens, targets + targets / 20);  // well filled
  for (const int64_t epoch : {0, 3}) {
    const Windows w = rows.windows(epoch * rows.rows(), rows.rows());
    ASSERT_EQ(w.inputs.size(), size_t(rows.rows() * kTokens));
    std::map<int32_t, int> seen;
    for (size_t i = 0; i < w.inputs.size(); ++i) {
      const bool first = i % kTokens == 0 || w.sequence[i] != w.sequence[i - 1];
      ASSERT_EQ(w.position[i], first ? 0 : w.position[i - 1] + 1) << i;
      ASSERT_FALSE(i % kTokens == 0 && i > 0 && w.sequence[i] == w.sequence[i - 1]) << i;
      if (w.sequence[i] < 0) continue;
      ASSERT_EQ(w.targets[i], w.inputs[i] + 1) << i;
      ++seen[w.targets[i]];
      if (!first) {
        ASSERT_EQ(w.inputs[i], w.inputs[i - 1] + 1) << i;
      }
    }
    EXPECT_EQ(seen.size(), size_t(targets));
    for (const auto& [id, times] : seen) {
      ASSERT_EQ(times, 1);
      ASSERT_FALSE(std::binary_search(d.begins.begin(), d.begins.end(), uint64_t(id))) << id;
    }
  }
}

TEST(PackedRows, ADocumentLongerThanARowIsCut) {
  const Windows w = packed(documents_of({10}), 4).rows(0, 3);
  EXPECT_EQ(w.inputs, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0}));
  EXPECT_EQ(w.targets, (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0}));
  EXPECT_EQ(w.position, (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 2}));
  EXPECT_EQ(std::count_if(w.sequence.begin(), w.sequence.end(), [](int32_t s) { return s < 0; }), 3);
}

// A small example of best fit, longest first: 4 | 3+1 | 2+2, and not 4 | 3 | 2+2 | 1.
TEST(PackedRows, BestFit) {
  const PackedRows rows = packed(documents_of({2, 3, 5, 3, 4}), 4);
  EXPECT_EQ(rows.rows(), 3);
  EXPECT_EQ(rows.targets(), 12);
}

TEST(PackedRows, EpochsDifferAndAnyRowCanBeHadAtOnce) {
  const Documents d = documents_of(random_lengths(200, 30));
  const PackedRows rows = packed(d, 32);
  const int64_t n = rows.rows();
  EXPECT_NE(rows.windows(0, n).inputs, rows.windows(n, n).inputs);
  EXPECT_NE(rows.windows(0, n).inputs, packed(d, 32, 2).windows(0, n).inputs);
  const Windows all = rows.windows(0, 3 * n);
  for (const int64_t first : {int64_t(0), n - 1, 2 * n - 3}) {
    const Windows some = rows.windows(first, 3);
    EXPECT_TRUE(std::equal(some.inputs.begin(), some.inputs.end(), all.inputs.begin() + first * 32));
    EXPECT_TRUE(std::equal(some.position.begin(), some.position.end(), all.position.begin() + first * 32));
  }
}

// Both answers of a pair are in one row, the chosen one first; one that is too long leaves the other half of the row.
TEST(PackedRows, PairsShareARow) {
  const Documents d = documents_of({5, 4, 3, 3, 2, 30, 20, 19, 4, 4});
  std::vector<uint8_t> trained(d.ids.size(), 1), chosen{1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  for (const size_t k : {8u, 9u})  // the last pair: nothing to learn from its second answer
    std::fill_n(trained.begin() + int64_t(d.begins[k]), 4, uint8_t(k == 8));
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 12, 1, trained, {chosen, true});
  EXPECT_EQ(rows.cut(), 3);
  EXPECT_EQ(rows.passed_over(), 2);
  EXPECT_EQ(rows.targets(), 7 + 4 + 12 + 12);
  ASSERT_EQ(rows.rows(), 3);
  const Windows w = rows.windows(0, 3);
  ASSERT_EQ(w.answers.size(), 8u);
  std::map<uint64_t, int64_t> places;  // by the answer's first id
  for (size_t i = 0; i < w.answers.size(); ++i) {
    const Answer& a = w.answers[i];
    EXPECT_EQ(a.chosen, i % 2 == 0);
    places[uint64_t(w.inputs[size_t(a.first)])] = a.places;
    if (i % 2 == 0) continue;
    EXPECT_EQ(a.first / 12, w.answers[i - 1].first / 12);
    EXPECT_EQ(a.first, w.answers[i - 1].first + w.answers[i - 1].places);
    EXPECT_NE(w.sequence[size_t(a.first)], w.sequence[size_t(a.first) - 1]);
    EXPECT_LE(a.first % 12 + a.places, 12);
  }
  const std::vector<int64_t> want{4, 3, 2, 2, 1, 11, 6, 6};
  for (size_t k = 0; k < want.size(); ++k) EXPECT_EQ(places.at(d.begins[k]), want[k]) << k;
  EXPECT_NE(message_of([&] {
              PackedRows(d.ids, std::span(d.begins).first(3), d.begins[3], 12, 1, trained, {chosen, true});
            }).find("no pairs"),
            std::string::npos);
}

// 300 000 documents: a search through all rows would take minutes.
TEST(PackedRows, ManyDocuments) {
  const Documents d = documents_of(random_lengths(300'000, 40));
  const auto begin = std::chrono::steady_clock::now();
  const PackedRows rows = packed(d, 256);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 30);
  EXPECT_GT(double(rows.targets()) / double(rows.rows() * 256), 0.99);
}

TEST(PackedRows, Refusals) {
  EXPECT_EQ(message_of([] {
              packed(documents_of({1, 1}), 4);
            }),
            "pack: of 2 documents none has two tokens, so there is nothing to learn");
  EXPECT_EQ(message_of([] { packed(documents_of({5}), 0); }), "packed rows of 0 tokens; give 1 or more");
}

}  // namespace
}  // namespace toy::packing_test

// Ranks and correlations that are known by hand.
#include "toy/eval/retrieval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "testing/errors.h"
#include "testing/files.h"

namespace toy::retrieval_test {
namespace {

using Vector = std::vector<float>;

TEST(Retrieval, RanksOfPositives) {
  RetrievalSet set(2);
  set.add_pair(Vector{1, 0}, 0, Vector{1, 0}, 1);        // found first
  set.add_pair(Vector{0, 1}, 2, Vector{0.8f, 0.6f}, 3);  // the negative is nearer
  set.add_negative(Vector{0, 1}, 4);
  const RetrievalScores s = set.scores(0.5);
  EXPECT_EQ(s.anchors, 2);
  EXPECT_EQ(s.texts, 3);
  EXPECT_EQ(s.right, 1);
  EXPECT_EQ(s.among_5, 2);
  EXPECT_DOUBLE_EQ(s.reciprocal_ranks, 1.5);
  const double y = double(0.8f), z = double(0.6f);
  const double first = std::log(std::exp(2.0) + std::exp(2 * y) + 1) - 2,
               second = std::log(1 + std::exp(2 * z) + std::exp(2.0)) - 2 * z;
  EXPECT_NEAR(s.nats, first + second, 1e-14);
}

TEST(Retrieval, EqualTextsAreNoWrongAnswersAndTiesAreLost) {
  RetrievalSet same(1);
  same.add_pair(Vector{1}, 0, Vector{1}, 1);
  same.add_pair(Vector{1}, 0, Vector{1}, 2);  // another answer to the same anchor
  same.add_negative(Vector{1}, 1);            // the first one's answer
  EXPECT_EQ(same.scores(1).texts, 2);
  EXPECT_EQ(same.scores(1).right, 2);
  same.add_negative(Vector{1}, 3);
  EXPECT_EQ(same.scores(1).right, 0);  // ties
  // What answers an equal anchor is right for it in whatever row it stands, also as another's answer.
  RetrievalSet shared(1);
  shared.add_pair(Vector{1}, 0, Vector{0.5f}, 1);
  shared.add_pair(Vector{1}, 0, Vector{1}, 2);
  shared.add_pair(Vector{-1}, 3, Vector{1}, 2);
  shared.add_pair(Vector{-1}, 3, Vector{-1}, 3);  // itself
  EXPECT_EQ(shared.scores(1).texts, 3);
  EXPECT_EQ(shared.scores(1).right, 3);  // of the third, the text 1 is nearer
  RetrievalSet collapsed(1);
  for (int64_t i = 0; i < 4; ++i) collapsed.add_pair(Vector{1}, 2 * i, Vector{1}, 2 * i + 1);
  EXPECT_EQ(collapsed.scores(1).right, 0);
  EXPECT_NEAR(collapsed.scores(1).nats, 4 * std::log(4.0), 1e-14);
}

TEST(Retrieval, WhatIsNotFiniteFindsNothingAndFarScoresAreFinite) {
  RetrievalSet broken(1);
  for (int64_t i = 0; i < 8; ++i) broken.add_pair(Vector{NAN}, 2 * i, Vector{NAN}, 2 * i + 1);
  EXPECT_EQ(broken.scores(1).among_5, 0);
  RetrievalSet far(1);
  far.add_pair(Vector{1}, 0, Vector{-1}, 1);
  far.add_negative(Vector{1}, 2);
  EXPECT_DOUBLE_EQ(far.scores(1e-3).nats, 2000);
}

TEST(Retrieval, Correlations) {
  const std::vector<double> a{1, 2, 3, 4}, b{10, 20, 20, 1000}, c{4, 3, 2, 1}, flat{1, 1, 1, 1};
  EXPECT_DOUBLE_EQ(spearman(a, c), -1);
  EXPECT_NEAR(spearman(a, b), 3 * std::sqrt(10.0) / 10, 1e-15);  // ranks 1, 2.5, 2.5, 4: 4.5 / sqrt(5 * 4.5)
  EXPECT_NEAR(pearson(a, a), 1, 1e-15);
  testing::expect_contains(testing::message_of([&] { spearman(a, flat); }), "all values are equal");
}

TEST(Retrieval, RatedPairs) {
  const testing::Folder folder;
  const std::string path = folder.path("sts.csv");
  std::ofstream(path) << "sentence1,sentence2,score\na b,c,4.5\nd,e,1\n";
  const auto file = [&] { return list_text_files(std::vector{path}).files.at(0); };
  const auto pairs = read_rated_pairs(file());
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[0].first, "a b");
  EXPECT_EQ(pairs[0].score, 4.5);
  std::ofstream(path) << "sentence1,sentence2,score\na b,c,4.5\nd,e,1x\n";
  testing::expect_contains(testing::message_of([&] { read_rated_pairs(file()); }), "sts.csv:3: 'score' is '1x'");
  std::ofstream(path) << "sentence1,sentence2\na b,c\n";
  testing::expect_contains(testing::message_of([&] { read_rated_pairs(file()); }), "there is no 'score'");
}

}  // namespace
}  // namespace toy::retrieval_test

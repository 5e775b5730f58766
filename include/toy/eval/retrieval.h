// How well embeddings find what belongs together, and how well they order pairs by likeness.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "toy/data/text_files.h"
#include "toy/eval/compare.h"

namespace toy {

/// How often the positive of an anchor is the text whose vector is nearest, among all positives and negatives.
struct RetrievalScores {
  int64_t anchors = 0, texts = 0;  ///< texts: that are searched in
  int64_t right = 0, among_5 = 0;  ///< anchors whose positive comes first, and among the first 5
  double reciprocal_ranks = 0;     ///< sum over anchors; 0 where the positive is not among the first 10
  double nats = 0;                 ///< sum of -log of the softmax of cosine / temperature
  MeanError recall_1() const;      ///< the part of the anchors that is `right`
  MeanError recall_5() const;      ///< and that is among the first 5
};

/// Anchors and the texts that they are searched in, as vectors of length 1. A text is known by an id, and is searched
/// once however often it is added. What equals an anchor, and what answers an equal one, is no wrong answer to it.
class RetrievalSet {
 public:
  /// Of vectors of `width` numbers.
  explicit RetrievalSet(int64_t width) : width_(size_t(width)) {}
  /// An anchor and its positive.
  void add_pair(std::span<const float> anchor, int64_t anchor_id, std::span<const float> positive, int64_t positive_id);
  /// A text that answers no anchor.
  void add_negative(std::span<const float> text, int64_t id);
  /// Ties count against the positive.
  RetrievalScores scores(double temperature) const;

 private:
  struct Anchor {
    int64_t id;
    size_t positive;  // among the texts
  };
  size_t add_text(std::span<const float> text, int64_t id);

  size_t width_;
  std::vector<float> anchor_vectors_, vectors_;
  std::vector<Anchor> anchors_;
  std::unordered_map<int64_t, size_t> texts_;   // id to the number of its vector
  std::map<int64_t, std::set<int64_t>> right_;  // ids of the texts that are no wrong answers to an anchor
};

/// Two texts and how alike people find them.
struct RatedPair {
  std::string first, second;
  double score = 0;
};
/// Reads rows {"sentence1", "sentence2", "score"} (or `label`, `similarity`) of JSON Lines, lists and tables. Throws
/// Error{bad_input} with file, line and reason, and where there are fewer than two rows.
std::vector<RatedPair> read_rated_pairs(const TextFile& file);

/// Spearman's correlation: Pearson's of ranks, where equal values have the mean of their ranks. Throws Error{bad_input}
/// where all values of a list are equal, as there is no order then.
double spearman(std::span<const double> a, std::span<const double> b);
/// Pearson's correlation. Throws as spearman().
double pearson(std::span<const double> a, std::span<const double> b);

}  // namespace toy

// Means over tokens whose errors come from blocks of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "toy/eval/score.h"

namespace toy {

/// The mean of a value of each token. Tokens of one block depend on each other, blocks are taken to be independent (the
/// ratio estimator over clusters, Cochran, Sampling Techniques, 3rd ed., 6.3).
class BlockMean {
 public:
  /// Blocks are documents, or kScoreBlock consecutive tokens.
  explicit BlockMean(bool by_document) : by_document_(by_document) {}

  void add(size_t document, double value) {
    const bool next = sums_.empty() || (by_document_ ? document != last_ : sums_.back().tokens == kScoreBlock);
    if (next) sums_.emplace_back();
    last_ = document;
    sums_.back().value += value;
    ++sums_.back().tokens;
  }

  int64_t blocks() const { return int64_t(sums_.size()); }
  int64_t tokens() const {
    int64_t n = 0;
    for (const Sum& s : sums_) n += s.tokens;
    return n;
  }
  double sum() const {
    double all = 0;
    for (const Sum& s : sums_) all += s.value;
    return all;
  }
  double mean() const { return sum() / double(tokens()); }
  /// Standard error of mean(); NaN for fewer than two blocks.
  double error() const {
    const double b = double(sums_.size()), mean = this->mean();
    double squares = 0;
    for (const Sum& s : sums_) squares += std::pow(s.value - mean * double(s.tokens), 2);
    return b < 2 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(b / (b - 1) * squares) / double(tokens());
  }

 private:
  struct Sum {
    double value = 0;
    int64_t tokens = 0;
  };
  bool by_document_;
  size_t last_ = 0;
  std::vector<Sum> sums_;
};

}  // namespace toy

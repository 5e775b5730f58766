// Several sources in fixed shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace toy {

/// Which source a row comes from, and which of the source's rows it is, counted from 0: both functions of (seed, row).
/// Within any beginning of the rows a source has its share to within 1024 rows, and of every whole block of 1024 rows
/// to within one or two. Each source's rows come once each.
class Mixture {
 public:
  /// Shares w / sum(w), in units of 2^-32. Throws Error{bad_input} for weights that are negative, not finite, all 0, or
  /// above 0 and too small beside the others for one unit.
  Mixture(std::span<const double> weights, uint64_t seed);

  /// A row of a source.
  struct Row {
    size_t source;
    int64_t row;
  };
  /// Of row `row` of the mixture.
  Row at(int64_t row) const;
  /// Of each source: its part of all rows, in 0 to 1.
  const std::vector<double>& shares() const { return shares_; }

 private:
  uint64_t seed_;
  std::vector<double> shares_;
  std::vector<uint64_t> splits_;  ///< of each source: its part of what the ones before it leave, in units of 2^-32
};

}  // namespace toy

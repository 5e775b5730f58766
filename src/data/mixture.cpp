#include "toy/data/mixture.h"

#include <cmath>

#include "data/permute.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr uint64_t kBlock = 1024;        // rows that are shuffled among themselves
constexpr double kUnits = 4294967296.0;  // of a share: 2^32

// floor(n * part / 2^32), exactly.
uint64_t part_of(uint64_t n, uint64_t part) { return uint64_t((static_cast<unsigned __int128>(n) * part) >> 32); }

}  // namespace

Mixture::Mixture(std::span<const double> weights, uint64_t seed) : seed_(seed) {
  double sum = 0;
  for (const double w : weights) {
    check(std::isfinite(w) && w >= 0, "corpus-weight is {}, expected 0 or more", w);
    sum += w;
  }
  check(std::isfinite(sum), "corpus-weight: the weights are too large to be added up");
  check(sum > 0, "corpus-weight: all weights are 0, so there is nothing to train on; give one above 0");
  double left = sum;
  size_t last = 0;
  for (const double w : weights) {
    shares_.push_back(w / sum);
    const uint64_t units = left > 0 ? uint64_t(std::llround(std::fmin(1.0, w / left) * kUnits)) : 0;
    check(w == 0 || w / sum * kUnits >= 1, "corpus-weight {} is too small for a sum of {}", w, sum);
    if (w > 0) last = splits_.size();
    splits_.push_back(units);
    left -= w;
  }
  splits_[last] = uint64_t(kUnits);  // it takes what is left, whatever the rounding of the sums before it
}

Mixture::Row Mixture::at(int64_t row) const {
  const uint64_t block = uint64_t(row) / kBlock, key = hash_name("mixture") ^ seed_;
  uint64_t place = block * kBlock + permute(uint64_t(row) % kBlock, kBlock, key, block);
  for (size_t s = 0; s < splits_.size(); ++s) {
    const uint64_t before = part_of(place, splits_[s]);
    if (part_of(place + 1, splits_[s]) > before) return {s, int64_t(before)};
    place -= before;
  }
  fail_internal("mixture: no source takes row {}", row);
}

}  // namespace toy

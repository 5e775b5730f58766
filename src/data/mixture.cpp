#include "toy/data/mixture.h"

#include <cmath>
#include <utility>

#include "data/permute.h"
#include "toy/base/error.h"

namespace toy {
namespace {

constexpr uint64_t kBlock = 1024;        // rows that are shuffled among themselves
constexpr double kUnits = 4294967296.0;  // of a share: 2^32

// floor(n * part / 2^32), exactly.
uint64_t part_of(uint64_t n, uint64_t part) { return uint64_t((static_cast<unsigned __int128>(n) * part) >> 32); }

// Sequences of a row's own numbers become those of place `at` among rows of `tokens`.
void append_row(const Windows& row, int64_t at, int64_t tokens, Windows& out) {
  const auto add = [](const std::vector<int32_t>& from, std::vector<int32_t>& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  add(row.inputs, out.inputs);
  add(row.targets, out.targets);
  add(row.position, out.position);
  out.trained.insert(out.trained.end(), row.trained.begin(), row.trained.end());
  const int32_t shift = int32_t(at * tokens);
  for (const Answer& a : row.answers) out.answers.push_back({a.first + at * tokens, a.places, a.chosen, a.id});
  for (const int32_t s : row.sequence) out.sequence.push_back(s < 0 ? s - shift : s + shift);
}

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

Mixture::Place Mixture::at(int64_t row) const {
  const uint64_t block = uint64_t(row) / kBlock, key = hash_name("mixture") ^ seed_;
  uint64_t place = block * kBlock + permute(uint64_t(row) % kBlock, kBlock, key, block);
  for (size_t s = 0; s < splits_.size(); ++s) {
    const uint64_t before = part_of(place, splits_[s]);
    if (part_of(place + 1, splits_[s]) > before) return {s, int64_t(before)};
    place -= before;
  }
  fail_internal("mixture: no source takes row {}", row);
}

MixedRows::MixedRows(Mixture mixture, std::vector<const Rows*> sources, int64_t tokens)
    : mixture_(std::move(mixture)), sources_(std::move(sources)), tokens_(tokens) {}

int64_t MixedRows::rows() const {
  int64_t rows = 0;
  for (const Rows* s : sources_) rows += s->rows();
  return rows;
}

Windows MixedRows::windows(int64_t first, int64_t count) const {
  Windows out;
  for (int64_t i = 0; i < count; ++i) {
    const Mixture::Place place = mixture_.at(first + i);
    append_row(sources_[place.source]->windows(place.row, 1), i, tokens_, out);
  }
  return out;
}

}  // namespace toy

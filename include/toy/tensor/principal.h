// The principal part of a matrix: what its largest singular values make of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/base/philox.h"
#include "toy/base/threads.h"

namespace toy {

/// b a, with singular values shared alike: the columns of b and the rows of a have the length sqrt(sigma).
struct LowRank {
  std::vector<double> a;  ///< [R,I]
  std::vector<double> b;  ///< [O,R]
};
/// The best b a of rank R for w [O,I] but for a small part of a percent, by subspace iteration (Halko et al. 2011,
/// algorithm 4.4) with 8 vectors more than R, and exact where w has no more rows or columns than that. The bits depend
/// on the arguments alone.
LowRank principal_of(std::span<const float> w, int64_t rows, int64_t columns, int64_t rank, const Philox& random,
                     ThreadPool& pool);

}  // namespace toy

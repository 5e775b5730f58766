// Long tables times small matrices, and the directions in which the rows of a table differ.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toy/base/philox.h"
#include "toy/base/threads.h"
#include "toy/tensor/shape.h"

namespace toy {

/// Rows of `table` [N,I], of any float or quantized type, from row `first` on, times w^T [I,O]: `out` [n,O]. Sums are
/// f64 and rounded once. A row has the same bits whatever `first`, n and the number of threads are.
void project_rows(const View& table, int64_t first, std::span<const float> w, std::span<float> out,
                  ThreadPool& threads);

/// Of large tables, how many rows principal_components() reads.
int64_t rows_for_components(int64_t columns);
/// The `count` directions [count,I] in which the rows of `table` [N,I] differ most from their mean, in falling order:
/// eigenvectors of the covariance, of length 1, each with its largest element above 0. Reads rows_for_components()
/// rows, evenly spaced. Throws Error{bad_input} for more directions than columns, and for values that are not finite.
std::vector<float> principal_components(const View& table, int64_t count, ThreadPool& threads);

/// A matrix of few rows times one of few columns.
struct LowRank {
  std::vector<float> a;  ///< [R,I]
  std::vector<float> b;  ///< [O,R]
};
/// scale b a, nearly the nearest of rank R to w [O,I]: of its largest singular values, which the columns of b and the
/// rows of a share alike. Exact if R + 8 are no fewer than the rows or columns of w; else by subspace iteration (Halko
/// et al. 2011, algorithm 4.4) with 8 vectors more than R, in f64. The bits do not depend on the number of threads.
/// Throws Error{bad_input} for values that are not finite.
LowRank best_low_rank(std::span<const float> w, int64_t columns, int64_t rank, double scale, const Philox& random,
                      ThreadPool& threads);

}  // namespace toy

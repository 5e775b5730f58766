#include "toy/tensor/principal.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace toy {
namespace {

constexpr int kIterations = 4, kMoreVectors = 8;

// Vectors one after the other, each of `size` elements.
struct Vectors {
  int64_t count = 0, size = 0;
  std::vector<double> values;
  Vectors(int64_t n, int64_t of_size) : count(n), size(of_size), values(size_t(n * of_size)) {}
  double* operator[](int64_t i) { return values.data() + i * size; }
  const double* operator[](int64_t i) const { return values.data() + i * size; }
};

double dot(const double* x, const double* y, int64_t n) { return std::inner_product(x, x + n, y, 0.0); }

// Gram-Schmidt, twice, because once leaves what rounding added. A vector that depends on those before it becomes zero.
void orthonormalize(Vectors& v) {
  for (int64_t i = 0; i < v.count; ++i) {
    const double before = std::sqrt(dot(v[i], v[i], v.size));
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double part = dot(v[i], v[j], v.size);
        for (int64_t k = 0; k < v.size; ++k) v[i][k] -= part * v[j][k];
      }
    const double length = std::sqrt(dot(v[i], v[i], v.size));
    const double factor = length > 1e-12 * before ? 1 / length : 0;
    for (int64_t k = 0; k < v.size; ++k) v[i][k] *= factor;
  }
}

// w x of each vector, or x w. Each element is one sum in one thread.
void multiply(std::span<const float> w, const Vectors& x, ThreadPool& pool, Vectors& y, bool by_columns) {
  const int64_t columns = by_columns ? y.size : x.size;
  pool.run([&](int thread) {
    const Range mine = part(y.size, thread, pool.size());
    if (by_columns) {
      for (int64_t v = 0; v < x.count; ++v) std::fill(y[v] + mine.begin, y[v] + mine.end, 0.0);
      for (int64_t o = 0; o < x.size; ++o)
        for (int64_t v = 0; v < x.count; ++v) {
          const double factor = x[v][o];
          const float* row = w.data() + o * columns;
          for (int64_t i = mine.begin; i < mine.end; ++i) y[v][i] += factor * double(row[i]);
        }
      return;
    }
    for (int64_t o = mine.begin; o < mine.end; ++o)
      for (int64_t v = 0; v < x.count; ++v) {
        const float* row = w.data() + o * columns;
        double sums[8] = {};  // of every eighth element, so that they fit a vector
        int64_t i = 0;
        for (; i + 8 <= columns; i += 8)
          for (int64_t j = 0; j < 8; ++j) sums[j] += x[v][i + j] * double(row[i + j]);
        for (; i < columns; ++i) sums[0] += x[v][i] * double(row[i]);
        y[v][o] = std::accumulate(sums, sums + 8, 0.0);
      }
  });
}

// Eigenvectors of a symmetric matrix as rows of the result, by Jacobi's rotations; the matrix becomes diagonal.
Vectors eigenvectors(Vectors& m) {
  const int64_t n = m.count;
  Vectors e(n, n);
  for (int64_t i = 0; i < n; ++i) e[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) all += m[i][j] * m[i][j], off += i == j ? 0 : m[i][j] * m[i][j];
    if (off <= 1e-30 * all) break;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (m[p][q] == 0) continue;
        const double theta = (m[q][q] - m[p][p]) / (2 * m[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        const auto rotate = [c, s](double& x, double& y) {
          const double before = x;
          x = c * before - s * y, y = s * before + c * y;
        };
        for (int64_t k = 0; k < n; ++k) rotate(m[k][p], m[k][q]);
        for (int64_t k = 0; k < n; ++k) rotate(m[p][k], m[q][k]), rotate(e[p][k], e[q][k]);
      }
  }
  return e;
}

}  // namespace

LowRank principal_of(std::span<const float> w, int64_t rows, int64_t columns, int64_t rank, const Philox& random,
                     ThreadPool& pool) {
  const int64_t n = std::min({rank + kMoreVectors, rows, columns});
  Vectors right(n, columns), left(n, rows);
  for (size_t i = 0; i < right.values.size(); ++i) right.values[i] = random.normal(i);
  orthonormalize(right);
  for (int i = 0; i < kIterations; ++i) {
    multiply(w, right, pool, left, false);
    orthonormalize(left);
    multiply(w, left, pool, right, true);
    orthonormalize(right);
  }
  multiply(w, right, pool, left, false);
  Vectors gram(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) gram[i][j] = dot(left[i], left[j], rows);
  const Vectors e = eigenvectors(gram);
  std::vector<int64_t> order(size_t(n), 0);
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return gram[i][i] > gram[j][j]; });
  LowRank p{std::vector<double>(size_t(rank * columns)), std::vector<double>(size_t(rows * rank))};
  for (int64_t r = 0; r < rank; ++r) {
    const int64_t from = order[size_t(r)];
    const double root = std::pow(std::max(0.0, gram[from][from]), 0.25);  // of sigma
    for (int64_t v = 0; v < n && root > 0; ++v) {
      const double part = e[from][v];
      for (int64_t i = 0; i < columns; ++i) p.a[size_t(r * columns + i)] += root * part * right[v][i];
      for (int64_t o = 0; o < rows; ++o) p.b[size_t(o * rank + r)] += part / root * left[v][o];
    }
  }
  return p;
}

}  // namespace toy

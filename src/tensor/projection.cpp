#include "toy/tensor/projection.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

template <class T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// All products are of blocks of this many rows, or columns, whose order of sums is one.
constexpr int64_t kRows = 64, kColumns = 64;

// Rows first, first + step, ... of a table.
void read_rows(const View& table, int64_t first, int64_t count, int64_t step, float* out) {
  const int64_t columns = table.shape.back();
  const int64_t together = step == 1 ? count : 1;
  for (int64_t i = 0; i < count; i += together)
    convert(View(table.as<std::byte>() + bytes_of(table.dtype, (first + i * step) * columns), table.dtype,
                 {together, columns}),
            View(out + i * columns, DType::f32, {together, columns}));
}

}  // namespace

void project_rows(const View& table, int64_t first, std::span<const float> w, std::span<float> out,
                  ThreadPool& threads) {
  const int64_t columns = table.shape.back(), outputs = int64_t(w.size()) / columns;
  const int64_t count = int64_t(out.size()) / outputs, blocks = (count + kRows - 1) / kRows;
  const Rows<double> map = Eigen::Map<const Rows<float>>(w.data(), outputs, columns).cast<double>();
  struct Scratch {
    Rows<float> stored;
    Rows<double> x, y;
  };
  std::vector<Scratch> scratch(size_t(threads.size()));
  for (Scratch& p : scratch) p.stored.setZero(kRows, columns), p.x.resize(kRows, columns), p.y.resize(kRows, outputs);
  threads.run([&](int thread) {
    Scratch& p = scratch[size_t(thread)];
    for (int64_t block = threads.claim(); block < blocks; block = threads.claim()) {
      const int64_t begin = block * kRows, n = std::min(kRows, count - begin);
      read_rows(table, first + begin, n, 1, p.stored.data());
      p.x = p.stored.cast<double>();
      p.y.noalias() = p.x * map.transpose();
      Eigen::Map<Rows<float>>(out.data() + begin * outputs, n, outputs) = p.y.topRows(n).cast<float>();
    }
  });
}

int64_t rows_for_components(int64_t columns) { return std::max<int64_t>(16 * columns, 8192); }

std::vector<float> principal_components(const View& table, int64_t count, ThreadPool& threads) {
  const int64_t rows = table.shape[0], columns = table.shape.back();
  check(count <= columns, "{} principal components of {} columns; use at most {}", count, columns, columns);
  const int64_t step = (rows + rows_for_components(columns) - 1) / rows_for_components(columns);
  const int64_t used = (rows + step - 1) / step;
  Rows<float> stored(kRows, columns);
  Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(columns);
  const auto for_each_block = [&](const auto& f) {
    for (int64_t begin = 0; begin < used; begin += kRows) {
      const int64_t n = std::min(kRows, used - begin);
      read_rows(table, begin * step, n, step, stored.data());
      f(n);
    }
  };
  for_each_block([&](int64_t n) { mean += stored.topRows(n).cast<double>().colwise().sum(); });
  mean /= double(used);
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(columns, columns), x(kRows, columns);  // its lower triangle
  const int64_t tiles = (columns + kColumns - 1) / kColumns;
  for_each_block([&](int64_t n) {
    x.setZero();
    x.topRows(n) = stored.topRows(n).cast<double>().rowwise() - mean;
    threads.run([&](int) {
      for (int64_t tile = threads.claim(); tile < tiles; tile = threads.claim()) {
        const int64_t at = tile * kColumns, width = std::min(kColumns, columns - at);
        covariance.block(at, at, columns - at, width).noalias() +=
            x.rightCols(columns - at).transpose() * x.middleCols(at, width);
      }
    });
  });
  check(covariance.allFinite(), "principal components: the table holds values that are not finite");
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
  check(solver.info() == Eigen::Success, "principal components: no eigenvectors were found");
  std::vector<float> directions(size_t(count * columns));
  for (int64_t i = 0; i < count; ++i) {  // eigenvalues rise
    Eigen::VectorXd v = solver.eigenvectors().col(columns - 1 - i);
    Eigen::Index largest = 0;
    v.cwiseAbs().maxCoeff(&largest);
    if (v[largest] < 0) v = -v;
    Eigen::Map<Eigen::VectorXf>(directions.data() + i * columns, columns) = v.cast<float>();
  }
  return directions;
}

namespace {

// Columns of length 1 that are orthogonal to each other and span what these do.
void orthonormalize(Eigen::MatrixXd& v) {
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(v);
  v = qr.householderQ() * Eigen::MatrixXd::Identity(v.rows(), v.cols());
}

// f(first, count) of all blocks of up to 64 of `size` numbers.
template <class F>
void for_each_block(int64_t size, ThreadPool& threads, const F& f) {
  threads.run([&](int) {
    for (int64_t at = threads.claim() * kRows; at < size; at = threads.claim() * kRows)
      f(at, std::min(kRows, size - at));
  });
}

}  // namespace

LowRank best_low_rank(std::span<const float> w, int64_t columns, int64_t rank, double scale, const Philox& random,
                      ThreadPool& threads) {
  constexpr int64_t kMore = 8, kIterations = 4;
  const int64_t rows = int64_t(w.size()) / columns, n = std::min({rank + kMore, rows, columns});
  check(rank <= n, "a matrix of {} rows and {} columns has no rank of {}", rows, columns, rank);
  const Eigen::Map<const Rows<float>> matrix(w.data(), rows, columns);
  check(matrix.allFinite(), "singular values: the matrix holds values that are not finite");
  Eigen::MatrixXd left(rows, n), right(columns, n);
  const auto to_left = [&] {
    for_each_block(rows, threads, [&](int64_t at, int64_t count) {
      left.middleRows(at, count).noalias() = matrix.middleRows(at, count).cast<double>() * right;
    });
  };
  const auto to_right = [&] {
    for_each_block(columns, threads, [&](int64_t at, int64_t count) {
      right.middleRows(at, count).noalias() = matrix.middleCols(at, count).cast<double>().transpose() * left;
    });
  };
  for (int64_t i = 0; i < right.size(); ++i) right.data()[i] = random.normal(uint64_t(i));
  orthonormalize(right);
  for (int64_t i = 0; i < kIterations; ++i) {
    to_left(), orthonormalize(left);
    to_right(), orthonormalize(right);
  }
  to_left();  // now left right^T is nearly w
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(left.transpose() * left);
  check(solver.info() == Eigen::Success, "singular values: none were found");
  LowRank result{std::vector<float>(size_t(rank * columns)), std::vector<float>(size_t(rows * rank))};
  Eigen::Map<Rows<float>> a(result.a.data(), rank, columns), b(result.b.data(), rows, rank);
  for (int64_t r = 0; r < rank; ++r) {  // eigenvalues rise
    const Eigen::VectorXd v = solver.eigenvectors().col(n - 1 - r);
    const double sigma = std::sqrt(std::max(0.0, solver.eigenvalues()[n - 1 - r]));
    if (sigma == 0) continue;
    a.row(r) = (std::sqrt(sigma / scale) * (right * v)).cast<float>();
    b.col(r) = (left * v / std::sqrt(sigma * scale)).cast<float>();
  }
  return result;
}

}  // namespace toy

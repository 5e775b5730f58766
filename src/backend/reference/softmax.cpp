#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"

namespace toy::reference {
namespace {

// y_k = exp(x_k - max x) / sum_j exp(x_j - max x)
void softmax(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int64_t D = args.in[0].shape.back(), N = D > 0 ? args.in[0].count() / D : 0;
  for (int64_t n = 0; n < N; ++n) {
    const double* x = input(args, 0) + n * D;
    double* y = output(args, 0) + n * D;
    const double top = *std::max_element(x, x + D);
    double sum = 0;
    for (int64_t k = 0; k < D; ++k) sum += std::exp(x[k] - top);
    for (int64_t k = 0; k < D; ++k) y[k] = std::exp(x[k] - top) / sum;
  }
}

}  // namespace

KernelRecord softmax_kernel() { return {.op = "softmax", .in_place = {{0, 0}}, .code = softmax}; }

}  // namespace toy::reference

// Sums of all elements up to each one, along an axis.
#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// y_i = x_0 + ... + x_i; reverse: x_i + ... + x_(n-1)
void cumsum(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<CumsumAttrs>();
  const View &x = args.in[0], &y = args.out[0];
  const int64_t n = x.shape[at.axis];
  Shape lines = x.shape;
  lines[at.axis] = 1;
  for_each_index(lines, [&](Shape i) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      i[at.axis] = at.reverse ? n - 1 - k : k;
      sum += x.as<const double>()[offset(x, i)];
      y.as<double>()[offset(y, i)] = sum;
    }
  });
}

}  // namespace

KernelRecord cumsum_kernel() { return {.op = "cumsum", .layout = Layout::any, .in_place = {{0, 0}}, .code = cumsum}; }

}  // namespace toy::reference

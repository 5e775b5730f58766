// cumsum along an axis. A line is summed by one thread, from one end to the other, in f64, and each partial sum is
// rounded once: the error is u |y| and n 2^-53 sum |x| before it, and the bits do not depend on threads or instruction
// set.
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/along_axis.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

constexpr int64_t kColumns = 128;  // neighbouring lines that are summed together

// `count` neighbouring lines of n elements that lie `stride` apart; a negative stride goes backwards.
void sum_lines(const float* x, float* y, int64_t n, int64_t stride, int64_t count) {
  double sums[kColumns] = {};
  for (int64_t i = 0; i < n; ++i, x += stride, y += stride)
    for (int64_t j = 0; j < count; ++j) {
      sums[j] += x[j];
      y[j] = float(sums[j]);
    }
}

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<CumsumAttrs>();
  const AlongAxis a(args.in[0].shape, at.axis);
  const int64_t stride = at.reverse ? -a.inner : a.inner;
  a.for_each_tile(ctx, kColumns, [&](int64_t o, int64_t j, int64_t count) {
    const int64_t first = (o * a.terms + (at.reverse ? a.terms - 1 : 0)) * a.inner + j;
    sum_lines(args.in[0].as<const float>() + first, args.out[0].as<float>() + first, a.terms, stride, count);
  });
}

}  // namespace

KernelRecord cumsum_kernel() { return {.op = "cumsum", .in_place = {{0, 0}}, .accepts = only_f32, .code = run}; }

}  // namespace toy::cpu

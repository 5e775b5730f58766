// cumsum along an axis. A line is summed by one thread, from one end to the other, in f64, and each partial sum is
// rounded once: the error is u |y| and n 2^-53 sum |x| before it, and the bits do not depend on threads or instruction
// set.
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
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

// The input as [outer, n, inner].
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<CumsumAttrs>();
  const Shape& shape = args.in[0].shape;
  const int64_t n = shape[at.axis];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < at.axis; ++i) outer *= shape[i];
  for (int i = at.axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t pieces = div_up(inner, kColumns), stride = at.reverse ? -inner : inner;
  const Range tiles = share_rows(ctx, outer * pieces, n * std::min(inner, kColumns));
  for (int64_t t = tiles.begin; t < tiles.end; ++t) {
    const int64_t j = t % pieces * kColumns, begin = t / pieces * n * inner + j;
    const int64_t first = begin + (at.reverse ? (n - 1) * inner : 0);
    sum_lines(args.in[0].as<const float>() + first, args.out[0].as<float>() + first, n, stride,
              std::min(kColumns, inner - j));
  }
}

}  // namespace

KernelRecord cumsum_kernel() { return {.op = "cumsum", .in_place = {{0, 0}}, .accepts = only_f32, .run = run}; }

}  // namespace toy::cpu

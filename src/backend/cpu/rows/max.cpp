// max over one axis, kept with size 1: exact. NaN if one is there, -inf over nothing, and 0 rather than -0, so that the
// order of comparisons does not show.
#define TOY_TARGET_FILE "backend/cpu/rows/max.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>

#include "backend/cpu/elementwise/elementwise-inl.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/along_axis.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// The larger of two maxima of parts, elementwise.
HWY_INLINE void take_larger(const float* x, int64_t n, float* best) {
  const Maximum larger;
  for_each_vector(n,
                  [&](auto io, int64_t i) HWY_ATTR { io.store(larger(io.load(best + i), io.load(x + i)), best + i); });
}

float max_of_row(const float* x, int64_t n) {
  HWY_ALIGN float best[kLanes];
  VF top = set(-kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) top = Maximum()(top, hn::LoadU(kF32, x + i));
  hn::Store(top, kF32, best);
  if (i < n) take_larger(x + i, n - i, best);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) take_larger(best + half, half, best);
  return best[0];
}

constexpr int64_t kColumns = 1024;  // a tile of neighbouring maxima

void max(const ExecContext& ctx, const KernelArgs& args) {
  const AlongAxis a(args.in[0].shape, args.attrs.as<AxisAttrs>().axis);
  const float* x = args.in[0].as<const float>();
  float* y = args.out[0].as<float>();
  if (a.inner == 1)
    return a.for_each_line(ctx, [&](int64_t o) HWY_ATTR { y[o] = max_of_row(x + o * a.terms, a.terms) + 0.0f; });
  a.for_each_tile(ctx, kColumns, [&](int64_t o, int64_t j, int64_t count) HWY_ATTR {
    float* best = y + o * a.inner + j;
    std::fill_n(best, count, -kInfinity);
    for (int64_t i = 0; i < a.terms; ++i) take_larger(x + (o * a.terms + i) * a.inner + j, count, best);
    for (int64_t k = 0; k < count; ++k) best[k] += 0.0f;
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(max);

}  // namespace

KernelRecord max_kernel() { return {.op = "max", .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(max)>}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE

// Softmax over the last dimension: exp(x - max x) / sum exp(x - max x).
//
// Error: the difference x - max is rounded, which exp turns into |x - max| u; with exp's 1 ulp, the sum's
// (D/64 + 7) u of positive terms and the quotient's two roundings, a relative (|x - max| + max_k |x_k - max|
// + D/64 + 18) u.
#define TOY_TARGET_FILE "backend/cpu/rows/softmax.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

float max_of(const float* x, int64_t D) {
  VF top = set(-kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= D; i += kLanes) top = hn::Max(top, hn::LoadU(kF32, x + i));
  float best = hn::GetLane(hn::MaxOfLanes(kF32, top));
  for (; i < D; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

void softmax(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back();
  const Range rows = share_rows(ctx, row_count(args.in[0]), D);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * D;
    float* y = args.out[0].as<float>() + n * D;
    const VF top = set(max_of(x, D));  // a NaN that the comparison passes over comes back through the sum
    const float sum = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR {
      const VF e = exp(hn::Sub(io.load(x + i), top));
      io.store(e, y + i);
      return hn::Add(s, present(io, e));  // a lane that is not there holds exp(0 - max)
    });
    const VF scale = set(1.0f / sum);
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Mul(io.load(y + i), scale), y + i); });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(softmax);

}  // namespace

KernelRecord softmax_kernel() {
  return {.op = "softmax", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(softmax)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE

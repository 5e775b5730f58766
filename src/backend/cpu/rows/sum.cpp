// sum over one axis, kept with size 1. Terms are added in f64 and the sum is rounded once: half an ulp, and
// an error of n 2^-53 sum |x| before it.
#define TOY_TARGET_FILE "backend/cpu/rows/sum.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/along_axis.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kColumns = 128;  // a tile of neighbouring sums

// out_j = sum_i x_ij for `count` columns of `terms` rows that lie `stride` apart.
void sum_columns(const float* x, int64_t terms, int64_t stride, int64_t count, float* out) {
  double sums[kColumns] = {};
  for (int64_t i = 0; i < terms; ++i)
    for (int64_t j = 0; j < count; ++j) sums[j] += x[i * stride + j];
  for (int64_t j = 0; j < count; ++j) out[j] = float(sums[j]);
}

void sum(const ExecContext& ctx, const KernelArgs& args) {
  const AlongAxis a(args.in[0].shape, args.attrs.as<AxisAttrs>().axis);
  const float* x = args.in[0].as<const float>();
  float* out = args.out[0].as<float>();
  if (a.inner == 1)
    return a.for_each_line(ctx, [&](int64_t o) HWY_ATTR { out[o] = float(sum_f64<false>(x + o * a.terms, a.terms)); });
  a.for_each_tile(ctx, kColumns, [&](int64_t o, int64_t j, int64_t count) HWY_ATTR {
    sum_columns(x + o * a.terms * a.inner + j, a.terms, a.inner, count, out + o * a.inner + j);
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(sum);

}  // namespace

KernelRecord sum_kernel() { return {.op = "sum", .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(sum)>}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE

// Rows of length one: y = x r, r = 1/sqrt(sum x^2 + eps), and its gradient dx = r (dy - y (y.dy)). A row's bits depend
// on nothing but the row.
//
// Error, with u = 2^-24: the sum is within (D/64 + 8) u, so r is within e = (D/128 + 7) u. y: e + u. dx: (D/24 + 34) u
// of r (|dy| + |y| sum |y dy|), that is 3e, the sum's D/64 + 8 and 5 roundings.
#define TOY_TARGET_FILE "backend/cpu/rows/l2_norm.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

float dot(const float* a, const float* b, int64_t D) {
  return sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR { return hn::MulAdd(io.load(a + i), io.load(b + i), s); });
}

void l2_norm(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back();
  const float eps = args.attrs.as<L2NormAttrs>().eps;
  const Range rows = share_rows(ctx, row_count(args.in[0]), D);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * D;
    float* y = args.out[0].as<float>() + n * D;
    const VF r = set(1.0f / std::sqrt(dot(x, x, D) + eps));
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Mul(io.load(x + i), r), y + i); });
  }
}

// dx may lie on x or dy: both sums come first.
void l2_norm_grad(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back();
  const float eps = args.attrs.as<L2NormAttrs>().eps;
  const Range rows = share_rows(ctx, row_count(args.in[0]), D);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float *x = args.in[0].as<const float>() + n * D, *dy = args.in[1].as<const float>() + n * D;
    float* dx = args.out[0].as<float>() + n * D;
    const float r = 1.0f / std::sqrt(dot(x, x, D) + eps);
    const VF scale = set(r), along = set(dot(x, dy, D) * r * r);
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR {
      io.store(hn::Mul(scale, hn::NegMulAdd(io.load(x + i), along, io.load(dy + i))), dx + i);
    });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(l2_norm);
HWY_EXPORT(l2_norm_grad);

}  // namespace

KernelRecord l2_norm_kernel() {
  return {.op = "l2_norm", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(l2_norm)>};
}
KernelRecord l2_norm_grad_kernel() {
  return {.op = "l2_norm_grad",
          .in_place = {{0, 1}, {0, 0}},
          .accepts = only_f32,
          .code = best_of<HWY_DISPATCH_TABLE(l2_norm_grad)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE

// RMSNorm (Zhang and Sennrich 2019) and its gradient. Rows of width D; a row's bits depend on nothing but the
// row.
//
// Error, with u = 2^-24. A sum of D squares is within (D/64 + 8) u (vec-inl.h, and a rounding of each square
// where there is no fma), so rstd is within e = (D/128 + 7) u. y: e + 2u. dx: (D/24 + 40) u of rstd (|w dy| +
// |x| rstd^2/D sum |w dy x|), that is 3e, the sum's D/64 + 10 and 7 roundings. dw, of N rows: (67 + N/64) u +
// e of sum |dy x rstd|.
#define TOY_TARGET_FILE "backend/cpu/rows/rms_norm.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/column_sums-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

float rstd_of(const float* x, int64_t D, float eps) {
  const float sum = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR {
    const VF v = io.load(x + i);
    return hn::MulAdd(v, v, s);
  });
  return 1.0f / std::sqrt(sum / float(D) + eps);
}

void rms_norm(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back();
  const float eps = args.attrs.as<RmsNormAttrs>().eps, *w = args.in[1].as<const float>();
  const Range rows = share_rows(ctx, row_count(args.in[0]), D);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * D;
    float* y = args.out[0].as<float>() + n * D;
    const VF scale = set(rstd_of(x, D, eps));
    for_each_vector(D, [&](auto io, int64_t i)
                           HWY_ATTR { io.store(hn::Mul(hn::Mul(io.load(x + i), scale), io.load(w + i)), y + i); });
  }
}

// dx_k = rstd (w_k dy_k - x_k rstd^2/D sum_j w_j dy_j x_j), and dw_k += dy_k x_k rstd. dx may lie on x or dy.
void grad_of_row(const float* x, const float* w, const float* dy, int64_t D, float eps, float* dx, float* dw) {
  const float rstd = rstd_of(x, D, eps);
  const float dot = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR {
    return hn::MulAdd(hn::Mul(io.load(w + i), io.load(dy + i)), io.load(x + i), s);
  });
  const VF scale = set(rstd), correction = set(dot * rstd * rstd / float(D));
  if (dw)
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR {
      io.store(hn::MulAdd(hn::Mul(io.load(x + i), scale), io.load(dy + i), io.load(dw + i)), dw + i);
    });
  if (dx)
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR {
      const VF direct = hn::Mul(io.load(w + i), io.load(dy + i));
      io.store(hn::Mul(scale, hn::NegMulAdd(io.load(x + i), correction, direct)), dx + i);
    });
}

void rms_norm_grad(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  const float eps = args.attrs.as<RmsNormAttrs>().eps;
  const float *x = args.in[0].as<const float>(), *w = args.in[1].as<const float>();
  const float* dy = args.in[2].as<const float>();
  float* dx = args.out[0].as<float>();
  const ColumnSums<1> dw{{args.out[1].as<float>()}};
  for_each_row(ctx, N, D, dw, args.workspace, [&](int64_t n, const ColumnSums<1>& part) HWY_ATTR {
    grad_of_row(x + n * D, w, dy + n * D, D, eps, dx ? dx + n * D : nullptr, part.sum[0]);
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(rms_norm);
HWY_EXPORT(rms_norm_grad);

size_t grad_workspace(const KernelQuery& q) noexcept { return column_sums_workspace<1>(q, q.in[0].shape); }

}  // namespace

KernelRecord rms_norm_kernel() {
  return {.op = "rms_norm", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(rms_norm)>};
}
KernelRecord rms_norm_grad_kernel() {
  return {.op = "rms_norm_grad",
          .in_place = {{0, 2}, {0, 0}},
          .accepts = only_f32,
          .workspace = grad_workspace,
          .code = best_of<HWY_DISPATCH_TABLE(rms_norm_grad)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE

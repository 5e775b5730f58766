// LayerNorm (Ba et al. 2016) and its gradient. Two passes over a row, the mean and then the squares of what deviates
// from it, so that a large mean costs nothing. A row's bits depend on nothing but the row.
//
// Error, with u = 2^-24, A = mean |x|, r = 1/sqrt(var + eps), z = (x - mean) r. The mean is within m = (D/64 + 8) u A.
// Deviations are within m + u |x - mean|; their common shift m adds only m^2 to the variance, whose roundings are (D/64
// + 11) u. So r is within e = (D/128 + 8) u + (m r)^2 / 2, z within m r + (e + 2u) |z|, y within |w| times that + 2u |z
// w|
// + u |y|. The gradient: see tests/ops/layer_norm_test.cpp.
#define TOY_TARGET_FILE "backend/cpu/rows/layer_norm.cpp"
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

struct Moments {
  float mean, rstd;
};

Moments moments_of(const float* x, int64_t D, float eps) {
  const float sum = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR { return hn::Add(s, io.load(x + i)); });
  const float mean = sum / float(D);
  const VF middle = set(mean);
  const float squares = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR {
    const VF c = present(io, hn::Sub(io.load(x + i), middle));
    return hn::MulAdd(c, c, s);
  });
  return {mean, 1.0f / std::sqrt(squares / float(D) + eps)};
}

void layer_norm(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back();
  const float eps = args.attrs.as<LayerNormAttrs>().eps, *w = args.in[1].as<const float>();
  const float* b = args.in[2].as<const float>();
  const Range rows = share_rows(ctx, row_count(args.in[0]), D);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * D;
    float* y = args.out[0].as<float>() + n * D;
    const Moments m = moments_of(x, D, eps);
    const VF mean = set(m.mean), scale = set(m.rstd);
    for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR {
      const VF z = hn::Mul(hn::Sub(io.load(x + i), mean), scale), gain = io.load(w + i);
      io.store(b ? hn::MulAdd(z, gain, io.load(b + i)) : hn::Mul(z, gain), y + i);
    });
  }
}

// With z = (x - mean) rstd and g = w dy: dx = rstd (g - mean(g) - z mean(g z)), dw += dy z, db += dy. dx may lie on x
// or dy.
void grad_of_row(const float* x, const float* w, const float* dy, int64_t D, float eps, float* dx,
                 const ColumnSums<2>& part) {
  const Moments m = moments_of(x, D, eps);
  const VF mean = set(m.mean), scale = set(m.rstd);
  const auto z_at = [&](auto io, int64_t i) HWY_ATTR { return hn::Mul(hn::Sub(io.load(x + i), mean), scale); };
  if (float* dw = part.sum[0])
    for_each_vector(D, [&](auto io, int64_t i)
                           HWY_ATTR { io.store(hn::MulAdd(z_at(io, i), io.load(dy + i), io.load(dw + i)), dw + i); });
  if (float* db = part.sum[1])
    for_each_vector(D,
                    [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Add(io.load(dy + i), io.load(db + i)), db + i); });
  if (!dx) return;
  const float sum_g =
      sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR { return hn::MulAdd(io.load(w + i), io.load(dy + i), s); });
  const float sum_gz = sum_over(D, [&](auto io, int64_t i, VF s) HWY_ATTR {
    return hn::MulAdd(hn::Mul(io.load(w + i), io.load(dy + i)), z_at(io, i), s);
  });
  const VF mean_g = set(sum_g / float(D)), mean_gz = set(sum_gz / float(D));
  for_each_vector(D, [&](auto io, int64_t i) HWY_ATTR {
    const VF direct = hn::MulSub(io.load(w + i), io.load(dy + i), mean_g);
    io.store(hn::Mul(scale, hn::NegMulAdd(z_at(io, i), mean_gz, direct)), dx + i);
  });
}

void layer_norm_grad(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  const float eps = args.attrs.as<LayerNormAttrs>().eps;
  const float *x = args.in[0].as<const float>(), *w = args.in[1].as<const float>();
  const float* dy = args.in[2].as<const float>();
  float* dx = args.out[0].as<float>();
  const ColumnSums<2> shared{{args.out[1].as<float>(), args.out[2].as<float>()}};
  for_each_row(ctx, N, D, shared, args.workspace, [&](int64_t n, const ColumnSums<2>& part) HWY_ATTR {
    grad_of_row(x + n * D, w, dy + n * D, D, eps, dx ? dx + n * D : nullptr, part);
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(layer_norm);
HWY_EXPORT(layer_norm_grad);

size_t grad_workspace(const KernelQuery& q) noexcept { return column_sums_workspace<2>(q, q.in[0].shape); }

}  // namespace

KernelRecord layer_norm_kernel() {
  return {
      .op = "layer_norm", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(layer_norm)>};
}
KernelRecord layer_norm_grad_kernel() {
  return {.op = "layer_norm_grad",
          .in_place = {{0, 2}, {0, 0}},
          .accepts = only_f32,
          .workspace = grad_workspace,
          .code = best_of<HWY_DISPATCH_TABLE(layer_norm_grad)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE

// One step of the optimizer, and the clipping of its gradients.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// Parameters and moments are donated: what is there stays when a step is skipped, because the scale of gradients is not
// finite.

// AdamW (Loshchilov and Hutter 2019, algorithm 2, with weight decay scaled by the learning rate as in
// PyTorch): m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2;  w' = w (1 - lr wd) - lr (m'/bias1) /
// (sqrt(v'/bias2) + eps) where bias1 = 1 - b1^t, bias2 = 1 - b2^t.
void adamw(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<AdamWAttrs>();
  const double *w = input(args, 0), *g = input(args, 1), *m = input(args, 2), *v = input(args, 3);
  const double lr = *input(args, 4), bias1 = *input(args, 5), bias2 = *input(args, 6);
  const double scale = scale_of_gradients(args, 7);
  const double b1 = at.beta1, b2 = at.beta2, eps = at.eps, wd = at.weight_decay;
  if (!std::isfinite(scale)) return;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const double gi = g[i] * scale;
    const double mi = b1 * m[i] + (1 - b1) * gi, vi = b2 * v[i] + (1 - b2) * gi * gi;
    output(args, 0)[i] = w[i] * (1 - lr * wd) - lr * (mi / bias1) / (std::sqrt(vi / bias2) + eps);
    output(args, 1)[i] = mi;
    output(args, 2)[i] = vi;
    if (!std::isfinite(gi)) ctx.report(KernelFault::not_finite);
  }
}

// Gradient descent: g' = gscale g + wd w, v' = momentum v + g' (Polyak 1964), w' = w - lr v', or with Nesterov's step
// w' = w - lr (g' + momentum v').
void sgd_momentum(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<SgdAttrs>();
  const double *w = input(args, 0), *g = input(args, 1), *v = input(args, 2);
  const double lr = *input(args, 3), scale = scale_of_gradients(args, 4);
  if (!std::isfinite(scale)) return;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const double gi = scale * g[i] + at.weight_decay * w[i], vi = at.momentum * v[i] + gi;
    output(args, 0)[i] = w[i] - lr * (at.nesterov ? gi + at.momentum * vi : vi);
    output(args, 1)[i] = vi;
    if (!std::isfinite(g[i])) ctx.report(KernelFault::not_finite);
  }
}

// Without momentum: w' = w - lr g'.
void sgd(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double decay = args.attrs.as<SgdAttrs>().weight_decay;
  const double *w = input(args, 0), *g = input(args, 1);
  const double lr = *input(args, 2), scale = scale_of_gradients(args, 3);
  if (!std::isfinite(scale)) return;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    output(args, 0)[i] = w[i] - lr * (scale * g[i] + decay * w[i]);
    if (!std::isfinite(g[i])) ctx.report(KernelFault::not_finite);
  }
}

// Lion (Chen et al. 2023, algorithm 2): w' = w - lr (sign(b1 m + (1-b1) g) + wd w), m' = b2 m + (1-b2) g.
void lion(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<LionAttrs>();
  const double *w = input(args, 0), *g = input(args, 1), *m = input(args, 2);
  const double lr = *input(args, 3), scale = scale_of_gradients(args, 4);
  if (!std::isfinite(scale)) return;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const double gi = scale * g[i], mi = m[i], c = at.beta1 * mi + (1 - at.beta1) * gi;
    output(args, 0)[i] = w[i] - lr * (double(c > 0) - double(c < 0) + at.weight_decay * w[i]);
    output(args, 1)[i] = at.beta2 * mi + (1 - at.beta2) * gi;
    if (!std::isfinite(gi)) ctx.report(KernelFault::not_finite);
  }
}

// v' = momentum v + g; the step along v', or with Nesterov's along g + momentum v'.
void momentum(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<MomentumAttrs>();
  const double *v = input(args, 0), *g = input(args, 1), scale = scale_of_gradients(args, 2);
  double* step = output(args, 1);
  const int64_t n = args.in[0].count();
  if (!std::isfinite(scale)) return void(std::fill_n(step, n, 0.0));
  for (int64_t i = 0; i < n; ++i) {
    const double gi = scale * g[i], vi = at.momentum * v[i] + gi;
    output(args, 0)[i] = vi;
    step[i] = at.nesterov ? gi + at.momentum * vi : vi;
    if (!std::isfinite(gi)) ctx.report(KernelFault::not_finite);
  }
}

// avg + mix (w - avg)
void ema(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *avg = input(args, 0), *w = input(args, 1), mix = *input(args, 2);
  if (!std::isfinite(scale_of_gradients(args, 3))) return;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) output(args, 0)[i] = avg[i] + mix * (w[i] - avg[i]);
}

// sqrt(sum of the squares of all elements of all inputs)
void global_norm(const ExecContext& ctx, const KernelArgs& args) noexcept {
  double sum = 0;
  for (const View& g : args.in)
    for (int64_t i = 0, n = g.count(); i < n; ++i) sum += g.as<const double>()[i] * g.as<const double>()[i];
  *output(args, 0) = std::sqrt(sum);
}

// norm > limit ? limit / norm : 1. A norm that is not finite gives NaN, which makes adamw skip the step.
void clip_scale(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double norm = *input(args, 0), limit = *input(args, 1);
  const double scale = norm > limit ? limit / norm : 1;
  *output(args, 0) = std::isfinite(norm) ? scale : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

KernelRecord adamw_kernel() { return {.op = "adamw", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .code = adamw}; }
KernelRecord sgd_kernel() { return {.op = "sgd", .in_place = {{0, 0}}, .code = sgd}; }
KernelRecord sgd_momentum_kernel() {
  return {.op = "sgd_momentum", .in_place = {{0, 0}, {1, 2}}, .code = sgd_momentum};
}
KernelRecord lion_kernel() { return {.op = "lion", .in_place = {{0, 0}, {1, 2}}, .code = lion}; }
KernelRecord momentum_kernel() { return {.op = "momentum", .in_place = {{0, 0}, {1, 1}}, .code = momentum}; }
KernelRecord ema_kernel() { return {.op = "ema", .in_place = {{0, 0}}, .code = ema}; }
KernelRecord global_norm_kernel() { return {.op = "global_norm", .code = global_norm}; }
KernelRecord clip_scale_kernel() { return {.op = "clip_scale", .code = clip_scale}; }

}  // namespace toy::reference

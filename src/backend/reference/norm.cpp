// Norms, rotations, gates: what stands between the products of a block.
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

int64_t row_count(const View& v) { return v.shape.back() > 0 ? v.count() / v.shape.back() : 0; }

// 1 / sqrt(mean(x^2) + eps)
double rstd_of(const double* x, int64_t D, double eps) {
  double sum = 0;
  for (int64_t k = 0; k < D; ++k) sum += x[k] * x[k];
  return 1 / std::sqrt(sum / double(D) + eps);
}

// y_k = x_k rstd w_k
void rms_norm(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1);
  double* y = output(args, 0);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  for (int64_t n = 0; n < N; ++n) {
    const double rstd = rstd_of(x + n * D, D, args.attrs.as<RmsNormAttrs>().eps);
    for (int64_t k = 0; k < D; ++k) y[n * D + k] = x[n * D + k] * rstd * w[k];
  }
}

// dx_k = rstd (w_k dy_k - x_k rstd^2 / D sum_j w_j dy_j x_j);  dw_k = sum_n dy_nk x_nk rstd_n
void rms_norm_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *dy = input(args, 2);
  double *dx = output(args, 0), *dw = output(args, 1);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  if (dw) std::fill_n(dw, D, 0.0);
  for (int64_t n = 0; n < N; ++n) {
    const double *xn = x + n * D, *dyn = dy + n * D;
    const double rstd = rstd_of(xn, D, args.attrs.as<RmsNormAttrs>().eps);
    double dot = 0;
    for (int64_t k = 0; k < D; ++k) dot += w[k] * dyn[k] * xn[k];
    for (int64_t k = 0; k < D; ++k) {
      if (dw) dw[k] += dyn[k] * xn[k] * rstd;
      if (dx) dx[n * D + k] = rstd * (w[k] * dyn[k] - xn[k] * rstd * rstd / double(D) * dot);
    }
  }
}

// mean(x) and 1 / sqrt(mean((x - mean)^2) + eps)
struct Moments {
  double mean = 0, rstd = 0;
};
Moments moments_of(const double* x, int64_t D, double eps) {
  Moments m;
  for (int64_t k = 0; k < D; ++k) m.mean += x[k] / double(D);
  double squares = 0;
  for (int64_t k = 0; k < D; ++k) squares += (x[k] - m.mean) * (x[k] - m.mean);
  m.rstd = 1 / std::sqrt(squares / double(D) + eps);
  return m;
}

// y_k = (x_k - mean) rstd w_k + b_k
void layer_norm(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *b = input(args, 2);
  double* y = output(args, 0);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  for (int64_t n = 0; n < N; ++n) {
    const Moments m = moments_of(x + n * D, D, args.attrs.as<LayerNormAttrs>().eps);
    for (int64_t k = 0; k < D; ++k) y[n * D + k] = (x[n * D + k] - m.mean) * m.rstd * w[k] + (b ? b[k] : 0);
  }
}

// With z = (x - mean) rstd and g = w dy: dx = rstd (g - mean(g) - z mean(g z));  dw = sum_n dy z;  db = sum_n dy
void layer_norm_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *dy = input(args, 2);
  double *dx = output(args, 0), *dw = output(args, 1), *db = output(args, 2);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  if (dw) std::fill_n(dw, D, 0.0);
  if (db) std::fill_n(db, D, 0.0);
  for (int64_t n = 0; n < N; ++n) {
    const double *xn = x + n * D, *dyn = dy + n * D;
    const Moments m = moments_of(xn, D, args.attrs.as<LayerNormAttrs>().eps);
    double mean_g = 0, mean_gz = 0;
    for (int64_t k = 0; k < D; ++k) {
      mean_g += w[k] * dyn[k] / double(D);
      mean_gz += w[k] * dyn[k] * (xn[k] - m.mean) * m.rstd / double(D);
    }
    for (int64_t k = 0; k < D; ++k) {
      const double z = (xn[k] - m.mean) * m.rstd;
      if (dw) dw[k] += dyn[k] * z;
      if (db) db[k] += dyn[k];
      if (dx) dx[n * D + k] = m.rstd * (w[k] * dyn[k] - mean_g - z * mean_gz);
    }
  }
}

// 1 / sqrt(sum(x^2) + eps)
double rnorm_of(const double* x, int64_t D, double eps) {
  double sum = eps;
  for (int64_t k = 0; k < D; ++k) sum += x[k] * x[k];
  return 1 / std::sqrt(sum);
}

void l2_norm(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double* x = input(args, 0);
  double* y = output(args, 0);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  for (int64_t n = 0; n < N; ++n) {
    const double r = rnorm_of(x + n * D, D, args.attrs.as<L2NormAttrs>().eps);
    for (int64_t k = 0; k < D; ++k) y[n * D + k] = x[n * D + k] * r;
  }
}

// With y = x r: dx = r (dy - y (y.dy))
void l2_norm_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *dy = input(args, 1);
  double* dx = output(args, 0);
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  for (int64_t n = 0; n < N; ++n) {
    const double r = rnorm_of(x + n * D, D, args.attrs.as<L2NormAttrs>().eps);
    double dot = 0;
    for (int64_t k = 0; k < D; ++k) dot += x[n * D + k] * r * dy[n * D + k];
    for (int64_t k = 0; k < D; ++k) dx[n * D + k] = r * (dy[n * D + k] - x[n * D + k] * r * dot);
  }
}

// A pair (x0, x1) turns by the angle of its row's position: y0 = x0 c - x1 s, y1 = x0 s + x1 c. Elements
// beyond the 2Q that the table turns are copied. A row whose position is not in the table is reported and not
// turned.
void rope(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<RopeAttrs>();
  const double *x = input(args, 0), *table = input(args, 2);
  const int32_t* pos = indices(args, 1);
  double* y = output(args, 0);
  const Shape& shape = args.in[0].shape;
  const int64_t N = shape[0], H = shape[1], P = shape[2], C = args.in[2].shape[0], Q = args.in[2].shape[1];
  if (x != y) std::copy_n(x, N * H * P, y);
  const bool half = at.pairing == RopePairing::half;
  for (int64_t n = 0; n < N; ++n) {
    if (pos[n] < 0 || pos[n] >= C) {
      ctx.report(KernelFault::position, n, pos[n]);
      continue;
    }
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < Q; ++i) {
        const double c = table[(pos[n] * Q + i) * 2], s = table[(pos[n] * Q + i) * 2 + 1] * (at.inverse ? -1 : 1);
        double* head = y + (n * H + h) * P;
        double &y0 = head[half ? i : 2 * i], &y1 = head[half ? i + Q : 2 * i + 1];
        const double x0 = y0, x1 = y1;
        y0 = x0 * c - x1 * s;
        y1 = x0 * s + x1 * c;
      }
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// y = silu(gate) up, silu(z) = z sigmoid(z) (Shazeer 2020)
void swiglu(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *gate = input(args, 0), *up = input(args, 1);
  double* y = output(args, 0);
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

// silu'(z) = sigmoid(z) (1 + z (1 - sigmoid(z)))
void swiglu_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *gate = input(args, 0), *up = input(args, 1), *dy = input(args, 2);
  double *dgate = output(args, 0), *dup = output(args, 1);
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const double z = gate[i], u = up[i], d = dy[i], s = sigmoid(z);
    if (dgate) dgate[i] = d * u * s * (1 + z * (1 - s));
    if (dup) dup[i] = d * z * s;
  }
}

// y_k = exp(x_k - max x) / sum_j exp(x_j - max x)
void softmax(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int64_t D = args.in[0].shape.back(), N = row_count(args.in[0]);
  for (int64_t n = 0; n < N; ++n) {
    const double* x = input(args, 0) + n * D;
    double* y = output(args, 0) + n * D;
    const double top = *std::max_element(x, x + D);
    double sum = 0;
    for (int64_t k = 0; k < D; ++k) sum += std::exp(x[k] - top);
    for (int64_t k = 0; k < D; ++k) y[k] = std::exp(x[k] - top) / sum;
  }
}

}  // namespace

KernelRecord rms_norm_kernel() { return {.op = "rms_norm", .in_place = {{0, 0}}, .code = rms_norm}; }
KernelRecord rms_norm_grad_kernel() { return {.op = "rms_norm_grad", .code = rms_norm_grad}; }
KernelRecord layer_norm_kernel() { return {.op = "layer_norm", .in_place = {{0, 0}}, .code = layer_norm}; }
KernelRecord layer_norm_grad_kernel() { return {.op = "layer_norm_grad", .code = layer_norm_grad}; }
KernelRecord l2_norm_kernel() { return {.op = "l2_norm", .in_place = {{0, 0}}, .code = l2_norm}; }
KernelRecord l2_norm_grad_kernel() { return {.op = "l2_norm_grad", .code = l2_norm_grad}; }
KernelRecord rope_kernel() { return {.op = "rope", .in_place = {{0, 0}}, .code = rope}; }
KernelRecord swiglu_kernel() { return {.op = "swiglu", .in_place = {{0, 0}, {0, 1}}, .code = swiglu}; }
KernelRecord swiglu_grad_kernel() { return {.op = "swiglu_grad", .in_place = {{0, 0}, {1, 1}}, .code = swiglu_grad}; }
KernelRecord softmax_kernel() { return {.op = "softmax", .in_place = {{0, 0}}, .code = softmax}; }

}  // namespace toy::reference

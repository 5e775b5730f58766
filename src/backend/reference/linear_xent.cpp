// The output projection together with the cross-entropy loss and the gradients of both.
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

struct Dims {
  int64_t N, D, V, R;  // rows, width, vocabulary, width of z
  double softcap;
};

// logits_j = sum_d x_d w_jd + sum_r z_r b_jr, or c tanh of this / c. Returns log(sum_j exp(logits_j)).
double logits_of_row(const Dims& dim, const double* x, const double* w, const double* z, const double* b,
                     double* logits) {
  for (int64_t j = 0; j < dim.V; ++j) {
    logits[j] = 0;
    for (int64_t d = 0; d < dim.D; ++d) logits[j] += x[d] * w[j * dim.D + d];
    for (int64_t r = 0; r < dim.R; ++r) logits[j] += z[r] * b[j * dim.R + r];
    if (dim.softcap > 0) logits[j] = dim.softcap * std::tanh(logits[j] / dim.softcap);
  }
  const double top = *std::max_element(logits, logits + dim.V);
  double sum = 0;
  for (int64_t j = 0; j < dim.V; ++j) sum += std::exp(logits[j] - top);
  return top + std::log(sum);
}

// dlogits_j = weight (softmax_j - [j == target]) (1 - (logits_j / c)^2), in the place of the logits.
void grad_of_row(const Dims& dim, double* logits, double lse, int32_t target, double weight) {
  for (int64_t j = 0; j < dim.V; ++j) {
    const double t = dim.softcap > 0 ? logits[j] / dim.softcap : 0;
    logits[j] = weight * (std::exp(logits[j] - lse) - (j == target ? 1 : 0)) * (1 - t * t);
  }
}

// dx += dlogits w; dw += dlogits^T x, w:[V,width]. Either may be unused.
void grad_of_product(int64_t V, int64_t width, const double* dlogits, const double* x, const double* w, double* dx,
                     double* dw) {
  for (int64_t j = 0; j < V; ++j)
    for (int64_t d = 0; d < width; ++d) {
      if (dx) dx[d] += dlogits[j] * w[j * width + d];
      if (dw) dw[j * width + d] += dlogits[j] * x[d];
    }
}

// nll_n = lse_n - logit_n[target_n]; loss = sum_n weight_n nll_n. A negative target means that there is none.
void linear_xent(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *weight = input(args, 3), *z = input(args, 4),
               *b = input(args, 5);
  const int32_t* target = indices(args, 2);
  double *loss = output(args, 0), *nll = output(args, 1), *dx = output(args, 2), *dw = output(args, 3),
         *dz = output(args, 4), *db = output(args, 5);
  const Dims dim{args.in[0].shape[0], args.in[0].shape[1], args.in[1].shape[0], z ? args.in[4].shape[1] : 0,
                 args.attrs.as<LinearXentAttrs>().softcap};
  double* logits = reinterpret_cast<double*>(args.workspace);

  double total = 0;
  if (nll) std::fill_n(nll, dim.N, 0.0);
  if (dx) std::fill_n(dx, dim.N * dim.D, 0.0);
  if (dw) std::fill_n(dw, dim.V * dim.D, 0.0);
  if (dz) std::fill_n(dz, dim.N * dim.R, 0.0);
  if (db) std::fill_n(db, dim.V * dim.R, 0.0);
  for (int64_t n = 0; n < dim.N; ++n) {
    if (target[n] >= dim.V) ctx.report(KernelFault::target, n, target[n]);
    if (target[n] < 0 || target[n] >= dim.V) continue;
    const double* z_row = z + n * dim.R;
    const double lse = logits_of_row(dim, x + n * dim.D, w, z_row, b, logits);
    const double row_nll = lse - logits[target[n]];
    if (nll) nll[n] = row_nll;
    if (weight[n] == 0) continue;
    total += weight[n] * row_nll;
    grad_of_row(dim, logits, lse, target[n], weight[n]);
    grad_of_product(dim.V, dim.D, logits, x + n * dim.D, w, dx ? dx + n * dim.D : nullptr, dw);
    grad_of_product(dim.V, dim.R, logits, z_row, b, dz ? dz + n * dim.R : nullptr, db);
  }
  if (loss) *loss = total;
}

size_t one_row_of_logits(const KernelQuery& q) noexcept { return size_t(q.in[1].shape[0]) * sizeof(double); }

}  // namespace

KernelRecord linear_xent_kernel() { return {.op = "linear_xent", .workspace = one_row_of_logits, .code = linear_xent}; }

}  // namespace toy::reference

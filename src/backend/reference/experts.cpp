// Mixtures of experts: N rows, E experts, of which each row uses U. Weights are [E,O,I].
#include <algorithm>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// The k largest of each row, in decreasing order; equal ones by index, NaN last.
void top_k(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const int64_t N = args.in[0].shape[0], E = args.in[0].shape[1], k = args.attrs.as<TopKAttrs>().k;
  for (int64_t n = 0; n < N; ++n) {
    const double* x = input(args, 0) + n * E;
    double* y = output(args, 0) + n * k;
    int32_t* ids = args.out[1].as<int32_t>() + n * k;
    const auto before = [](double a, double b) { return a > b || (std::isnan(b) && !std::isnan(a)); };
    for (int64_t i = 0; i < k; ++i) {
      int32_t best = -1;
      for (int32_t e = 0; e < E; ++e)
        if (std::find(ids, ids + i, e) == ids + i && (best < 0 || before(x[e], x[best]))) best = e;
      ids[i] = best, y[i] = x[best];
    }
  }
}

// Calls f(pair, row of x, expert) for every row and each of its experts; reports those that there are not.
template <class F>
void for_each_pair(const ExecContext& ctx, const View& ids, int64_t S, int64_t E, const F& f) {
  const int64_t N = ids.shape[0], U = ids.shape[1];
  const auto* id = ids.as<const int32_t>();
  for (int64_t p = 0; p < N * U; ++p) {
    if (id[p] < 0 || id[p] >= E)
      ctx.report(KernelFault::expert, p / U, id[p]);
    else
      f(p, S == 1 ? p / U : p, int64_t(id[p]));
  }
}

// y_nuo = sum_i w_eoi x_ni, e = ids_nu
void expert_linear(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const Shape& w = args.in[1].shape;
  const int64_t E = w[0], O = w[1], I = w[2], S = args.in[0].shape[1];
  std::fill_n(output(args, 0), args.out[0].count(), 0.0);
  for_each_pair(ctx, args.in[2], S, E, [&](int64_t p, int64_t row, int64_t e) {
    for (int64_t o = 0; o < O; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < I; ++i) sum += input(args, 1)[(e * O + o) * I + i] * input(args, 0)[row * I + i];
      output(args, 0)[p * O + o] = sum;
    }
  });
}

// dx_nui = sum_o dy_nuo w_eoi
void expert_linear_grad_x(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const Shape& w = args.in[1].shape;
  const int64_t E = w[0], O = w[1], I = w[2], U = args.in[0].shape[1];
  std::fill_n(output(args, 0), args.out[0].count(), 0.0);
  for_each_pair(ctx, args.in[2], U, E, [&](int64_t p, int64_t, int64_t e) {
    for (int64_t i = 0; i < I; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < O; ++o) sum += input(args, 0)[p * O + o] * input(args, 1)[(e * O + o) * I + i];
      output(args, 0)[p * I + i] = sum;
    }
  });
}

}  // namespace

KernelRecord top_k_kernel() { return {.op = "top_k", .code = top_k}; }
KernelRecord expert_linear_kernel() { return {.op = "expert_linear", .code = expert_linear}; }
KernelRecord expert_linear_grad_x_kernel() { return {.op = "expert_linear_grad_x", .code = expert_linear_grad_x}; }

}  // namespace toy::reference

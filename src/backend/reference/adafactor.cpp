// Adafactor (Shazeer and Stern 2018), as torch.optim.Adafactor states it.
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// w' = w (1 - lr wd) - lr size u / max(1, rms(u) / clip), u = g / sqrt(max(v, eps^2)); size is 1, or the root mean
// square of w where steps are relative. second(i): v of element i.
template <class Second>
void step(const KernelArgs& args, double lr, double scale, const Second& second) {
  const auto& at = args.attrs.as<AdafactorAttrs>();
  const double *w = input(args, 0), *g = input(args, 1);
  const int64_t n = args.in[0].count();
  const auto u = [&](int64_t i) { return scale * g[i] / std::sqrt(std::max(second(i), at.eps * at.eps)); };
  double squares = 0, weights = 0;
  for (int64_t i = 0; i < n; ++i) squares += u(i) * u(i), weights += w[i] * w[i];
  const double size = at.relative ? std::max(at.smallest_scale, std::sqrt(weights / double(n))) : 1;
  const double rate = lr * size / std::max(1.0, std::sqrt(squares / double(n)) / at.clip);
  for (int64_t i = 0; i < n; ++i) output(args, 0)[i] = w[i] * (1 - lr * at.weight_decay) - rate * u(i);
}

void report_gradient(const ExecContext& ctx, const KernelArgs& args) {
  for (int64_t i = 0, n = args.in[1].count(); i < n; ++i)
    if (!std::isfinite(input(args, 1)[i])) return ctx.report(KernelFault::not_finite);
}

// row' = row + mix (mean of the row of g^2 - row), col' likewise; v_ij = row'_i col'_j / max(mean(row'), eps).
void adafactor(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double lr = *input(args, 4), mix = *input(args, 5), scale = scale_of_gradients(args, 6);
  if (!std::isfinite(scale)) return;  // donated: what is there stays
  report_gradient(ctx, args);
  const int64_t R = args.in[0].shape[0], C = args.in[0].shape[1];
  double *row = output(args, 1), *col = output(args, 2), mean = 0;
  const auto square = [&](int64_t i, int64_t j) { return std::pow(scale * input(args, 1)[i * C + j], 2); };
  for (int64_t i = 0; i < R; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < C; ++j) sum += square(i, j);
    row[i] = input(args, 2)[i] + mix * (sum / double(C) - input(args, 2)[i]);
    mean += row[i] / double(R);
  }
  for (int64_t j = 0; j < C; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < R; ++i) sum += square(i, j);
    col[j] = input(args, 3)[j] + mix * (sum / double(R) - input(args, 3)[j]);
  }
  mean = std::max(mean, args.attrs.as<AdafactorAttrs>().eps);
  step(args, lr, scale, [&](int64_t i) { return row[i / C] / mean * col[i % C]; });
}

// Not a matrix: v' = v + mix (g^2 - v) for each element.
void adafactor_vector(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double lr = *input(args, 3), mix = *input(args, 4), scale = scale_of_gradients(args, 5);
  if (!std::isfinite(scale)) return;
  report_gradient(ctx, args);
  double* v = output(args, 1);
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i)
    v[i] = input(args, 2)[i] + mix * (std::pow(scale * input(args, 1)[i], 2) - input(args, 2)[i]);
  step(args, lr, scale, [&](int64_t i) { return v[i]; });
}

}  // namespace

KernelRecord adafactor_kernel() { return {.op = "adafactor", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .code = adafactor}; }
KernelRecord adafactor_vector_kernel() {
  return {.op = "adafactor_vector", .in_place = {{0, 0}, {1, 2}}, .code = adafactor_vector};
}

}  // namespace toy::reference

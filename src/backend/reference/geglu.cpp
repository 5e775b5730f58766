// y = gelu(gate) up (Shazeer 2020), for both forms of gelu (Hendrycks and Gimpel 2016).
#include <cmath>
#include <numbers>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

struct Gelu {
  double value, slope;
};

// gelu(z) = z s with s = (1 + tanh a) / 2 = 1 / (1 + e^(-2a)), a = sqrt(2/pi) (z + 0.044715 z^3), or with s = Phi(z);
// gelu'(z) = s + z s'
Gelu gelu(double z, GeluKind kind) {
  double s, ds;
  if (kind == GeluKind::tanh) {
    const double c = std::sqrt(2 / std::numbers::pi);
    s = 1 / (1 + std::exp(-2 * c * (z + 0.044715 * z * z * z)));
    ds = 2 * c * (1 + 3 * 0.044715 * z * z) * s * (1 - s);
  } else {
    s = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    ds = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  }
  return {z * s, s + z * ds};
}

void geglu(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *gate = input(args, 0), *up = input(args, 1);
  const GeluKind kind = args.attrs.as<GegluAttrs>().kind;
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) output(args, 0)[i] = gelu(gate[i], kind).value * up[i];
}

void geglu_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *gate = input(args, 0), *up = input(args, 1), *dy = input(args, 2);
  double *dgate = output(args, 0), *dup = output(args, 1);
  for (int64_t i = 0, n = args.in[0].count(); i < n; ++i) {
    const Gelu g = gelu(gate[i], args.attrs.as<GegluAttrs>().kind);
    const double u = up[i], d = dy[i];
    if (dgate) dgate[i] = d * u * g.slope;
    if (dup) dup[i] = d * g.value;
  }
}

}  // namespace

KernelRecord geglu_kernel() { return {.op = "geglu", .in_place = {{0, 0}, {0, 1}}, .code = geglu}; }
KernelRecord geglu_grad_kernel() { return {.op = "geglu_grad", .in_place = {{0, 0}, {1, 1}}, .code = geglu_grad}; }

}  // namespace toy::reference

// One element at a time, with numpy's broadcasting where there are two operands.
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }
double neg(double x) { return -x; }
double exp(double x) { return std::exp(x); }
double log(double x) { return std::log(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }

template <double (*f)(double, double)>
void binary(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const View &a = args.in[0], &b = args.in[1], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) {
    out.as<double>()[offset(out, i)] = f(a.as<const double>()[offset(a, i)], b.as<const double>()[offset(b, i)]);
  });
}

template <double (*f)(double)>
void unary(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const View &x = args.in[0], &out = args.out[0];
  for_each_index(out.shape,
                 [&](const Shape& i) { out.as<double>()[offset(out, i)] = f(x.as<const double>()[offset(x, i)]); });
}

void scale(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const View &x = args.in[0], &out = args.out[0];
  const double factor = args.attrs.as<ScaleAttrs>().factor;
  for_each_index(out.shape, [&](const Shape& i) {
    out.as<double>()[offset(out, i)] = factor * x.as<const double>()[offset(x, i)];
  });
}

template <double (*f)(double, double)>
KernelRecord binary_record(std::string_view op) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}, {0, 1}}, .run = binary<f>};
}
template <double (*f)(double)>
KernelRecord unary_record(std::string_view op) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}}, .run = unary<f>};
}

}  // namespace

KernelRecord add_kernel() { return binary_record<add>("add"); }
KernelRecord sub_kernel() { return binary_record<sub>("sub"); }
KernelRecord mul_kernel() { return binary_record<mul>("mul"); }
KernelRecord div_kernel() { return binary_record<div>("div"); }
KernelRecord neg_kernel() { return unary_record<neg>("neg"); }
KernelRecord exp_kernel() { return unary_record<exp>("exp"); }
KernelRecord log_kernel() { return unary_record<log>("log"); }
KernelRecord sqrt_kernel() { return unary_record<sqrt>("sqrt"); }
KernelRecord rsqrt_kernel() { return unary_record<rsqrt>("rsqrt"); }
KernelRecord sigmoid_kernel() { return unary_record<sigmoid>("sigmoid"); }
KernelRecord silu_kernel() { return unary_record<silu>("silu"); }
KernelRecord scale_kernel() { return {.op = "scale", .layout = Layout::any, .in_place = {{0, 0}}, .run = scale}; }

}  // namespace toy::reference

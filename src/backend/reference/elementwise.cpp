// One element at a time, with numpy's broadcasting where there are several operands.
#include <cmath>
#include <numbers>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }
double maximum(double a, double b) { return b > a || std::isnan(b) ? b : a; }
double minimum(double a, double b) { return b < a || std::isnan(b) ? b : a; }
bool greater(double a, double b) { return a > b; }
bool equal(double a, double b) { return a == b; }
double neg(double x) { return -x; }
double abs(double x) { return std::fabs(x); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double sqr(double x) { return x * x; }
double exp(double x) { return std::exp(x); }
double log(double x) { return std::log(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double sin(double x) { return std::sin(x); }
double cos(double x) { return std::cos(x); }
double tanh(double x) { return std::tanh(x); }
double erf(double x) { return std::erf(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// log(1 + e^x), where e^x may be too large
double softplus(double x) { return std::isnan(x) ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
double relu(double x) { return x < 0 ? 0 : x; }
double silu(double x) { return x / (1 + std::exp(-x)); }
// x Phi(x), Phi(x) = erfc(-x / sqrt 2) / 2
double gelu_erf(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// x/2 (1 + tanh a) = x / (1 + e^(-2a)), a = sqrt(2/pi) (x + 0.044715 x^3)
double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

template <auto f, class Out = double>  // f(double, double)
void binary(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &a = args.in[0], &b = args.in[1], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) {
    out.as<Out>()[offset(out, i)] = f(a.as<const double>()[offset(a, i)], b.as<const double>()[offset(b, i)]);
  });
}

void where(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &cond = args.in[0], &a = args.in[1], &b = args.in[2], &out = args.out[0];
  for_each_index(out.shape, [&](const Shape& i) {
    const bool first = cond.as<const int32_t>()[offset(cond, i)] != 0;
    out.as<double>()[offset(out, i)] = first ? a.as<const double>()[offset(a, i)] : b.as<const double>()[offset(b, i)];
  });
}

template <double (*f)(double)>
void unary(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &x = args.in[0], &out = args.out[0];
  for_each_index(out.shape,
                 [&](const Shape& i) { out.as<double>()[offset(out, i)] = f(x.as<const double>()[offset(x, i)]); });
}

void scale(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &x = args.in[0], &out = args.out[0];
  const double factor = args.attrs.as<ScaleAttrs>().factor;
  for_each_index(out.shape, [&](const Shape& i) {
    out.as<double>()[offset(out, i)] = factor * x.as<const double>()[offset(x, i)];
  });
}

void clamp(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &x = args.in[0], &out = args.out[0];
  const double lo = args.attrs.as<ClampAttrs>().lo, hi = args.attrs.as<ClampAttrs>().hi;
  for_each_index(out.shape, [&](const Shape& i) {
    const double v = x.as<const double>()[offset(x, i)];
    out.as<double>()[offset(out, i)] = v < lo ? lo : v > hi ? hi : v;
  });
}

template <double (*f)(double, double)>
KernelRecord binary_record(std::string_view op) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}, {0, 1}}, .code = binary<f>};
}
template <bool (*f)(double, double)>
KernelRecord comparison_record(std::string_view op) {
  return {.op = op, .layout = Layout::any, .code = binary<f, int32_t>};
}
template <double (*f)(double)>
KernelRecord unary_record(std::string_view op) {
  return {.op = op, .layout = Layout::any, .in_place = {{0, 0}}, .code = unary<f>};
}

}  // namespace

KernelRecord add_kernel() { return binary_record<add>("add"); }
KernelRecord sub_kernel() { return binary_record<sub>("sub"); }
KernelRecord mul_kernel() { return binary_record<mul>("mul"); }
KernelRecord div_kernel() { return binary_record<div>("div"); }
KernelRecord maximum_kernel() { return binary_record<maximum>("maximum"); }
KernelRecord minimum_kernel() { return binary_record<minimum>("minimum"); }
KernelRecord greater_kernel() { return comparison_record<greater>("greater"); }
KernelRecord equal_kernel() { return comparison_record<equal>("equal"); }
KernelRecord where_kernel() {
  return {.op = "where", .layout = Layout::any, .in_place = {{0, 1}, {0, 2}}, .code = where};
}
KernelRecord neg_kernel() { return unary_record<neg>("neg"); }
KernelRecord abs_kernel() { return unary_record<abs>("abs"); }
KernelRecord sign_kernel() { return unary_record<sign>("sign"); }
KernelRecord sqr_kernel() { return unary_record<sqr>("sqr"); }
KernelRecord exp_kernel() { return unary_record<exp>("exp"); }
KernelRecord log_kernel() { return unary_record<log>("log"); }
KernelRecord sqrt_kernel() { return unary_record<sqrt>("sqrt"); }
KernelRecord rsqrt_kernel() { return unary_record<rsqrt>("rsqrt"); }
KernelRecord sin_kernel() { return unary_record<sin>("sin"); }
KernelRecord cos_kernel() { return unary_record<cos>("cos"); }
KernelRecord tanh_kernel() { return unary_record<tanh>("tanh"); }
KernelRecord erf_kernel() { return unary_record<erf>("erf"); }
KernelRecord sigmoid_kernel() { return unary_record<sigmoid>("sigmoid"); }
KernelRecord softplus_kernel() { return unary_record<softplus>("softplus"); }
KernelRecord relu_kernel() { return unary_record<relu>("relu"); }
KernelRecord silu_kernel() { return unary_record<silu>("silu"); }
KernelRecord gelu_tanh_kernel() { return unary_record<gelu_tanh>("gelu_tanh"); }
KernelRecord gelu_erf_kernel() { return unary_record<gelu_erf>("gelu_erf"); }
KernelRecord scale_kernel() { return {.op = "scale", .layout = Layout::any, .in_place = {{0, 0}}, .code = scale}; }
KernelRecord clamp_kernel() { return {.op = "clamp", .layout = Layout::any, .in_place = {{0, 0}}, .code = clamp}; }

}  // namespace toy::reference

// Gaussian error linear units (Hendrycks and Gimpel 2016): x Phi(x) with the normal distribution Phi, and their
// approximation by tanh.
#include <cmath>
#include <numbers>

#include "ops/defs.h"

namespace toy {
namespace {

const double kSqrt2OverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

// 1/2 (1 + erf(x / sqrt 2))
Value normal_distribution(Value x) { return scale(erf(scale(x, 1 / std::numbers::sqrt2)) + 1, 0.5); }

// y' = Phi(x) + x phi(x), phi(x) = e^(-x^2/2) / sqrt(2 pi)
void gelu_erf_vjp(Vjp& c) {
  const Value x = c.in(0), density = scale(exp(scale(sqr(x), -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
  c.give(0, c.grad(0) * (normal_distribution(x) + x * density));
}

// y = x s(2a), a = sqrt(2/pi) (x + 0.044715 x^3), s(2a) = (1 + tanh a) / 2, so y' = s + 2 a' x s (1 - s)
void gelu_tanh_vjp(Vjp& c) {
  const Value x = c.in(0), x2 = sqr(x);
  const Value a2 = x * (scale(x2, 2 * kSqrt2OverPi * kCubic) + 2 * kSqrt2OverPi);
  const Value slope = scale(x2, 6 * kSqrt2OverPi * kCubic) + 2 * kSqrt2OverPi;
  const Value s = sigmoid(a2);
  c.give(0, c.grad(0) * (s + slope * x * (s - sqr(s))));
}

std::vector<Value> decompose_tanh(Graph&, std::span<const Value> in, const Attrs&) {
  const Value x = in[0], a = scale(x + scale(x * sqr(x), kCubic), kSqrt2OverPi);
  return {x * sigmoid(scale(a, 2))};  // (1 + tanh a) / 2 without cancellation
}

std::vector<Value> decompose_erf(Graph&, std::span<const Value> in, const Attrs&) {
  return {in[0] * normal_distribution(in[0])};
}

}  // namespace

const OpDef& gelu_tanh_def() {
  static const OpDef def{.signature = "gelu_tanh(x:[*]) -> y:[*]",
                         .vjp = gelu_tanh_vjp,
                         .cost = per_element<6, 0, 1>,
                         .decompose = decompose_tanh};
  return def;
}

const OpDef& gelu_erf_def() {
  static const OpDef def{.signature = "gelu_erf(x:[*]) -> y:[*]",
                         .vjp = gelu_erf_vjp,
                         .cost = per_element<6, 0, 1>,
                         .decompose = decompose_erf};
  return def;
}

Value gelu_tanh(Value x) { return apply(gelu_tanh_def(), {x}); }
Value gelu_erf(Value x) { return apply(gelu_erf_def(), {x}); }

}  // namespace toy

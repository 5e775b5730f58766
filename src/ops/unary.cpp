// Elementwise functions of one operand: one family, one line of calculus each.
#include <cmath>
#include <numbers>

#include "ops/defs.h"

namespace toy {
namespace {

constexpr auto transcendental = per_element<1, 0, 1>;

}  // namespace

const OpDef& neg_def() {
  static const OpDef def{.signature = "neg(x:[*]) -> y:[*]", .vjp = [](Vjp& c) { c.give(0, neg(c.grad(0))); }};
  return def;
}
const OpDef& abs_def() {  // |x|' = sign(x), 0 at 0
  static const OpDef def{.signature = "abs(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * sign(c.in(0))); }};
  return def;
}
const OpDef& sign_def() {  // constant but for the jump: no gradient flows
  static const OpDef def{.signature = "sign(x:[*]) -> y:[*]", .vjp = [](Vjp&) {}};
  return def;
}
const OpDef& sqr_def() {
  static const OpDef def{.signature = "sqr(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, scale(c.grad(0) * c.in(0), 2)); }};
  return def;
}
const OpDef& exp_def() {
  static const OpDef def{.signature = "exp(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * c.out(0)); },
                         .cost = transcendental};
  return def;
}
const OpDef& log_def() {
  static const OpDef def{.signature = "log(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) / c.in(0)); },
                         .cost = transcendental};
  return def;
}
const OpDef& sqrt_def() {  // d sqrt(x) = dx / (2 sqrt(x))
  static const OpDef def{.signature = "sqrt(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, scale(c.grad(0) / c.out(0), 0.5)); }};
  return def;
}
const OpDef& rsqrt_def() {  // d x^(-1/2) = -1/2 y^3 dx
  static const OpDef def{.signature = "rsqrt(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, scale(c.grad(0) * (c.out(0) * c.out(0) * c.out(0)), -0.5)); }};
  return def;
}
const OpDef& sin_def() {
  static const OpDef def{.signature = "sin(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * cos(c.in(0))); },
                         .cost = transcendental};
  return def;
}
const OpDef& cos_def() {
  static const OpDef def{.signature = "cos(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, neg(c.grad(0) * sin(c.in(0)))); },
                         .cost = transcendental};
  return def;
}
const OpDef& tanh_def() {  // y' = 1 - y^2
  static const OpDef def{.signature = "tanh(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) - c.grad(0) * sqr(c.out(0))); },
                         .cost = transcendental};
  return def;
}
const OpDef& erf_def() {  // y' = 2/sqrt(pi) e^(-x^2)
  static const OpDef def{
      .signature = "erf(x:[*]) -> y:[*]",
      .vjp = [](Vjp& c) { c.give(0, scale(c.grad(0) * exp(neg(sqr(c.in(0)))), 2 / std::sqrt(std::numbers::pi))); },
      .cost = transcendental};
  return def;
}
const OpDef& sigmoid_def() {  // s' = s (1 - s)
  static const OpDef def{.signature = "sigmoid(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * (c.out(0) - c.out(0) * c.out(0))); },
                         .cost = transcendental};
  return def;
}
const OpDef& softplus_def() {  // y' = sigmoid(x)
  static const OpDef def{.signature = "softplus(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * sigmoid(c.in(0))); },
                         .cost = per_element<3, 0, 2>};
  return def;
}
const OpDef& relu_def() {  // y' = [x > 0]
  static const OpDef def{.signature = "relu(x:[*]) -> y:[*]", .vjp = [](Vjp& c) {
                           const Value x = c.in(0), zero = c.graph().scalar(0, x.type().dtype);
                           c.give(0, where(greater(x, zero), c.grad(0), zero));
                         }};
  return def;
}
const OpDef& silu_def() {  // y' = s + y (1 - s), y = x s
  static const OpDef def{.signature = "silu(x:[*]) -> y:[*]",
                         .vjp =
                             [](Vjp& c) {
                               const Value s = sigmoid(c.in(0));
                               c.give(0, c.grad(0) * (s + (c.out(0) - c.out(0) * s)));
                             },
                         .cost = transcendental,
                         .decompose = [](Graph&, std::span<const Value> in,
                                         const Attrs&) { return std::vector<Value>{in[0] * sigmoid(in[0])}; }};
  return def;
}
const OpDef& scale_def() {
  static const OpDef def{.signature = "scale(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, scale(c.grad(0), c.attrs().as<ScaleAttrs>().factor)); }};
  return def;
}

const OpDef& clamp_def() {  // y' = [y = x]: the ends included
  static const OpDef def{.signature = "clamp(x:[*]) -> y:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const ClampAttrs& a = q.attrs.as<ClampAttrs>();
                               check(a.lo <= a.hi, "clamp: from {} to {} is no range", a.lo, a.hi);
                             },
                         .vjp =
                             [](Vjp& c) {
                               const Value zero = c.graph().scalar(0, c.in(0).type().dtype);
                               c.give(0, where(equal(c.out(0), c.in(0)), c.grad(0), zero));
                             },
                         .cost = per_element<2>};
  return def;
}

Value neg(Value x) { return apply(neg_def(), {x}); }
Value abs(Value x) { return apply(abs_def(), {x}); }
Value sign(Value x) { return apply(sign_def(), {x}); }
Value sqr(Value x) { return apply(sqr_def(), {x}); }
Value exp(Value x) { return apply(exp_def(), {x}); }
Value log(Value x) { return apply(log_def(), {x}); }
Value sqrt(Value x) { return apply(sqrt_def(), {x}); }
Value rsqrt(Value x) { return apply(rsqrt_def(), {x}); }
Value sin(Value x) { return apply(sin_def(), {x}); }
Value cos(Value x) { return apply(cos_def(), {x}); }
Value tanh(Value x) { return apply(tanh_def(), {x}); }
Value erf(Value x) { return apply(erf_def(), {x}); }
Value sigmoid(Value x) { return apply(sigmoid_def(), {x}); }
Value softplus(Value x) { return apply(softplus_def(), {x}); }
Value relu(Value x) { return apply(relu_def(), {x}); }
Value silu(Value x) { return apply(silu_def(), {x}); }
Value scale(Value x, double factor) { return apply(scale_def(), {x}, ScaleAttrs{factor}); }
Value softcapped(Value x, double cap) { return cap > 0 ? scale(tanh(scale(x, 1 / cap)), cap) : x; }
Value clamp(Value x, float lo, float hi) { return apply(clamp_def(), {x}, ClampAttrs{lo, hi}); }

}  // namespace toy

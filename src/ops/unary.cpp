// Elementwise functions of one operand: one family, one line of calculus each.
#include "ops/defs.h"

namespace toy {
namespace {

Cost transcendental(const CostQuery& q) {
  return {.flops = double(q.out[0].count()), .transcendentals = double(q.out[0].count())};
}

}  // namespace

const OpDef& neg_def() {
  static const OpDef def{.signature = "neg(x:[*]) -> y:[*]", .vjp = [](Vjp& c) { c.give(0, neg(c.grad(0))); }};
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
const OpDef& sigmoid_def() {  // s' = s (1 - s)
  static const OpDef def{.signature = "sigmoid(x:[*]) -> y:[*]",
                         .vjp = [](Vjp& c) { c.give(0, c.grad(0) * (c.out(0) - c.out(0) * c.out(0))); },
                         .cost = transcendental};
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

Value neg(Value x) { return x.graph->apply1(neg_def(), {x}); }
Value exp(Value x) { return x.graph->apply1(exp_def(), {x}); }
Value log(Value x) { return x.graph->apply1(log_def(), {x}); }
Value sqrt(Value x) { return x.graph->apply1(sqrt_def(), {x}); }
Value rsqrt(Value x) { return x.graph->apply1(rsqrt_def(), {x}); }
Value sigmoid(Value x) { return x.graph->apply1(sigmoid_def(), {x}); }
Value silu(Value x) { return x.graph->apply1(silu_def(), {x}); }
Value scale(Value x, double factor) { return x.graph->apply1(scale_def(), {x}, ScaleAttrs{factor}); }

}  // namespace toy

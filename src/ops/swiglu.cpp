// Gated linear unit with silu (Shazeer 2020, eq. 6).
#include "ops/defs.h"

namespace toy {
namespace {

void vjp(Vjp& c) {
  const int id = c.graph().apply(swiglu_grad_def(), {c.in(0), c.in(1), c.grad(0)});
  c.give(0, Value{&c.graph(), id, 0});
  c.give(1, Value{&c.graph(), id, 1});
}

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) { return {silu(in[0]) * in[1]}; }

std::vector<Value> decompose_grad(Graph&, std::span<const Value> in, const Attrs&) {
  const Value gate = in[0], up = in[1], dy = in[2], s = sigmoid(gate), y = gate * s;
  return {dy * up * (s + (y - y * s)), dy * y};
}

}  // namespace

const OpDef& swiglu_def() {
  static const OpDef def{.signature = "swiglu(gate:[*], up:[*]) -> y:[*]",
                         .vjp = vjp,
                         .cost =
                             [](const CostQuery& q) {
                               return Cost{.flops = 4.0 * double(q.out[0].count()),
                                           .transcendentals = double(q.out[0].count())};
                             },
                         .decompose = decompose};
  return def;
}

const OpDef& swiglu_grad_def() {
  static const OpDef def{.signature = "swiglu_grad(gate:[*], up:[*], dy:[*]) -> dgate:[*], dup:[*]",
                         .cost =
                             [](const CostQuery& q) {
                               return Cost{.flops = 9.0 * double(q.out[0].count()),
                                           .transcendentals = double(q.out[0].count())};
                             },
                         .decompose = decompose_grad};
  return def;
}

Value swiglu(Value gate, Value up) { return apply(swiglu_def(), {gate, up}); }

}  // namespace toy

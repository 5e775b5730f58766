// Gated linear unit with silu (Shazeer 2020, eq. 6).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) { return {silu(in[0]) * in[1]}; }

}  // namespace

const OpDef& swiglu_def() {
  static const OpDef def{.signature = "swiglu(gate:[*], up:[*]) -> y:[*]",
                         .vjp = vjp_by<swiglu_def, swiglu_grad_def>,
                         .cost = per_element<4, 0, 1>,
                         .decompose = decompose};
  return def;
}

const OpDef& swiglu_grad_def() {
  static const OpDef def{.signature = "swiglu_grad(gate:[*], up:[*], dy:[*]) -> dgate:[*], dup:[*]",
                         .cost = per_element<9, 0, 1>,
                         .decompose = derivative_of<swiglu_def, swiglu_grad_def>};
  return def;
}

Value swiglu(Value gate, Value up) { return apply(swiglu_def(), {gate, up}); }

Value swiglu_oai(Value gate, Value up) {
  constexpr float kLimit = 7;
  const Value g = minimum(gate, gate.graph->scalar(kLimit, gate.type().dtype));
  return g * sigmoid(scale(g, 1.702)) * (clamp(up, -kLimit, kLimit) + 1);
}

}  // namespace toy

// Gated linear unit with gelu (Shazeer 2020, eq. 6).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const bool by_tanh = attrs.as<GegluAttrs>().kind == GeluKind::tanh;
  return {(by_tanh ? gelu_tanh(in[0]) : gelu_erf(in[0])) * in[1]};
}

Cost cost_of(const CostQuery& q, double flops) {
  const double n = double(q.out[0].count());
  const bool by_tanh = q.attrs.as<GegluAttrs>().kind == GeluKind::tanh;  // erf has a polynomial too
  return {.flops = (by_tanh ? flops : flops + 22) * n, .transcendentals = n};
}

}  // namespace

const OpDef& geglu_def() {
  static const OpDef def{.signature = "geglu(gate:[*], up:[*]) -> y:[*]",
                         .vjp = vjp_by<geglu_def, geglu_grad_def>,
                         .cost = [](const CostQuery& q) { return cost_of(q, 6); },
                         .decompose = decompose};
  return def;
}

const OpDef& geglu_grad_def() {
  static const OpDef def{.signature = "geglu_grad(gate:[*], up:[*], dy:[*]) -> dgate:[*], dup:[*]",
                         .cost = [](const CostQuery& q) { return cost_of(q, 14); },
                         .decompose = derivative_of<geglu_def, geglu_grad_def>};
  return def;
}

Value geglu(Value gate, Value up, GeluKind kind) { return apply(geglu_def(), {gate, up}, GegluAttrs{kind}); }

}  // namespace toy

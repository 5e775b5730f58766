// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const LionAttrs a = attrs.as<LionAttrs>();
  const Value w = in[0], m = in[2], lr = in[3], grad = scaled(in[1], in[4]);
  const Value direction = sign(scale(m, a.beta1) + scale(grad, 1 - a.beta1));
  return {w - (direction + scale(w, a.weight_decay)) * lr, scale(m, a.beta2) + scale(grad, 1 - a.beta2)};
}

}  // namespace

const OpDef& lion_def() {
  static const OpDef def{.signature = "lion(w!:[*], g:[*], m!:[*], lr:[], gscale?:[]) -> w!:[*], m!:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const auto a = q.attrs.as<LionAttrs>();
                               check_betas("lion", a.beta1, a.beta2);
                             },
                         .cost = per_element<10, 5>,
                         .decompose = decompose};
  return def;
}

LionState lion(LionState state, Value g, Value lr, Value gscale, LionAttrs attrs) {
  const Value first = apply(lion_def(), {state.w, g, state.m, lr, gscale}, attrs);
  return {first, output(first, 1)};
}

}  // namespace toy

// Stochastic gradient descent with weight decay (added to the gradient) and momentum (Polyak 1964; Nesterov's as in
// Sutskever et al. 2013), as torch.optim.SGD has them with dampening 0.
#include "ops/defs.h"

namespace toy {
namespace {

Value with_decay(std::span<const Value> in, Value gscale, const SgdAttrs& a) {
  return scaled(in[1], gscale) + scale(in[0], a.weight_decay);
}

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const Value w = in[0], lr = in[2];
  return {w - with_decay(in, in[3], attrs.as<SgdAttrs>()) * lr};
}

std::vector<Value> decompose_momentum(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const SgdAttrs a = attrs.as<SgdAttrs>();
  const Value w = in[0], lr = in[3], g = with_decay(in, in[4], a);
  const Value v = scale(in[2], a.momentum) + g;
  return {w - (a.nesterov ? g + scale(v, a.momentum) : v) * lr, v};
}

void check_attrs(const TypeQuery& q, std::vector<TensorType>&) {
  const SgdAttrs& a = q.attrs.as<SgdAttrs>();
  check(a.momentum >= 0 && a.momentum < 1, "sgd: momentum is {}, expected 0 to below 1", a.momentum);
  check(!a.nesterov || a.momentum > 0, "sgd: Nesterov's step needs a momentum above 0");
}

}  // namespace

const OpDef& sgd_def() {
  static const OpDef def{.signature = "sgd(w!:[*], g:[*], lr:[], gscale?:[]) -> w!:[*]",
                         .infer = check_attrs,
                         .cost = per_element<5, 3>,
                         .decompose = decompose};
  return def;
}

const OpDef& sgd_momentum_def() {
  static const OpDef def{.signature = "sgd_momentum(w!:[*], g:[*], v!:[*], lr:[], gscale?:[]) -> w!:[*], v!:[*]",
                         .infer = check_attrs,
                         .cost = per_element<9, 5>,
                         .decompose = decompose_momentum};
  return def;
}

SgdState sgd(SgdState state, Value g, Value lr, Value gscale, SgdAttrs attrs) {
  if (!state.v) {
    check(attrs.momentum == 0, "sgd: momentum {} needs a velocity", attrs.momentum);
    return {apply(sgd_def(), {state.w, g, lr, gscale}, attrs), {}};
  }
  const Value first = apply(sgd_momentum_def(), {state.w, g, state.v, lr, gscale}, attrs);
  return {first, output(first, 1)};
}

}  // namespace toy

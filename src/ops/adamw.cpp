// AdamW (Loshchilov and Hutter 2019, algorithm 2), and the clipping of gradients by their global norm (Pascanu et al.
// 2013).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const AdamWAttrs a = attrs.as<AdamWAttrs>();
  const Value w = in[0], m = in[2], v = in[3], lr = in[4];
  const Value grad = scaled(in[1], in[7]);
  const Value m1 = scale(m, a.beta1) + scale(grad, 1.0 - a.beta1);
  const Value v1 = scale(v, a.beta2) + scale(grad * grad, 1.0 - a.beta2);
  const Value step = (m1 / in[5]) / (sqrt(v1 / in[6]) + g.scalar(a.eps, w.type().dtype));
  return {w - w * scale(lr, a.weight_decay) - step * lr, m1, v1};
}

}  // namespace

const OpDef& adamw_def() {
  static const OpDef def{.signature =
                             "adamw(w!:[*], g:[*], m!:[*], v!:[*], lr:[], bias1:[], bias2:[], gscale?:[]) -> "
                             "w!:[*], m!:[*], v!:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const auto a = q.attrs.as<AdamWAttrs>();
                               check_betas("adamw", a.beta1, a.beta2);
                               check_eps("adamw", a.eps);
                             },
                         .cost = per_element<14, 7>,
                         .decompose = decompose};
  return def;
}

const OpDef& global_norm_def() {
  static const OpDef def{.signature = "global_norm(gs...:[...]) -> norm:[]", .cost = [](const CostQuery& q) {
                           Cost c;
                           for (const TensorType* t : q.in) c.flops += 2.0 * double(t->count());
                           return c;
                         }};
  return def;
}

const OpDef& clip_scale_def() {
  static const OpDef def{.signature = "clip_scale(norm:[], limit:[]) -> y:[]"};
  return def;
}

AdamWState adamw(AdamWState state, Value g, Value lr, Value bias1, Value bias2, Value gscale, AdamWAttrs attrs) {
  const Value first = apply(adamw_def(), {state.w, g, state.m, state.v, lr, bias1, bias2, gscale}, attrs);
  return {first, output(first, 1), output(first, 2)};
}

Value global_norm(std::span<const Value> gs) {
  check(!gs.empty(), "global_norm: no operands");
  return apply(global_norm_def(), {gs.begin(), gs.end()});
}

Value clip_scale(Value norm, Value limit) { return apply(clip_scale_def(), {norm, limit}); }

}  // namespace toy

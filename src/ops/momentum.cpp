// What Muon is made of (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): a velocity, and
// the matrix of its direction made nearly orthogonal. And the exponential average of weights.
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose_momentum(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const MomentumAttrs a = attrs.as<MomentumAttrs>();
  const Value grad = scaled(in[1], in[2]), v = scale(in[0], a.momentum) + grad;
  return {v, a.nesterov ? grad + scale(v, a.momentum) : v};
}

}  // namespace

const OpDef& momentum_def() {
  static const OpDef def{.signature = "momentum(v!:[*], g:[*], gscale?:[]) -> v!:[*], step:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const double m = q.attrs.as<MomentumAttrs>().momentum;
                               check(m >= 0 && m < 1, "momentum: {} is not in 0 to below 1", m);
                             },
                         .cost = per_element<5, 4>,
                         .decompose = decompose_momentum};
  return def;
}

const OpDef& ema_def() {
  static const OpDef def{.signature = "ema(avg!:[*], w:[*], mix:[], gscale?:[]) -> avg!:[*]",
                         .cost = per_element<3, 3>,
                         .decompose = [](Graph&, std::span<const Value> in, const Attrs&) {
                           return std::vector<Value>{in[0] + (in[1] - in[0]) * in[2]};
                         }};
  return def;
}

Momentum momentum(Value v, Value g, Value gscale, MomentumAttrs attrs) {
  const Value first = apply(momentum_def(), {v, g, gscale}, attrs);
  return {first, output(first, 1)};
}

Value ema(Value avg, Value w, Value mix, Value gscale) { return apply(ema_def(), {avg, w, mix, gscale}); }

Value orthogonalized(Value x) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;  // of Jordan et al.: steep at 0, so that 5 steps suffice
  constexpr int kSteps = 5;
  constexpr double kSmallest = 1e-7;  // a matrix of zeros stays one
  const int rank = x.shape().rank();
  check(rank >= 2, "orthogonalized: {} is not a matrix", x.type().str());
  const bool tall = x.dim(rank - 2) > x.dim(rank - 1);  // X^T X is then the smaller product
  const Value norm = sqrt(sum(sum(sqr(x), rank - 1), rank - 2));
  Value y = x / maximum(norm, x.graph->scalar(kSmallest, x.type().dtype));
  for (int i = 0; i < kSteps; ++i) {
    const Value gram = tall ? matmul(y, y, {true, false}) : matmul(y, y, {false, true});
    const Value p = scale(gram, b) + scale(matmul(gram, gram), c);
    y = scale(y, a) + (tall ? matmul(y, p) : matmul(p, y));
  }
  return y;
}

}  // namespace toy

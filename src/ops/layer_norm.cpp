// Layer normalization (Ba et al. 2016, eq. 4).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value x = in[0], w = in[1], b = in[2];
  const int last = x.shape().rank() - 1;
  const double part = 1.0 / double(x.dim(last));
  const Value centred = x - scale(sum(x, last), part);
  const Value variance = scale(sum(centred * centred, last), part);
  const Value y = centred * rsqrt(variance + g.scalar(attrs.as<LayerNormAttrs>().eps, x.type().dtype)) * w;
  return {b ? y + b : y};
}

}  // namespace

const OpDef& layer_norm_def() {
  static const OpDef def{
      .signature = "layer_norm(x:[*,D], w:[D], b?:[D]) -> y:[*,D]",
      .infer = [](const TypeQuery& q,
                  std::vector<TensorType>&) { check_eps("layer_norm", q.attrs.as<LayerNormAttrs>().eps); },
      .vjp = vjp_by<layer_norm_def, layer_norm_grad_def>,
      .cost = per_element<7>,
      .decompose = decompose};
  return def;
}

const OpDef& layer_norm_grad_def() {
  static const OpDef def{.signature = "layer_norm_grad(x:[*,D], w:[D], dy:[*,D]) -> dx:[*,D], dw?:[D], db?:[D]",
                         .cost = per_element<16>,
                         .decompose = derivative_of<layer_norm_def, layer_norm_grad_def>};
  return def;
}

Value layer_norm(Value x, Value w, Value b, float eps) {
  return apply(layer_norm_def(), {x, w, b}, LayerNormAttrs{eps});
}

}  // namespace toy

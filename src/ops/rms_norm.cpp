// Root mean square normalization (Zhang and Sennrich 2019, eq. 4).
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value x = in[0], w = in[1];
  const int last = x.shape().rank() - 1;
  const Value mean_square = scale(sum(x * x, last), 1.0 / double(x.dim(last)));
  return {x * rsqrt(mean_square + g.scalar(attrs.as<RmsNormAttrs>().eps, x.type().dtype)) * w};
}

}  // namespace

const OpDef& rms_norm_def() {
  static const OpDef def{
      .signature = "rms_norm(x:[*,D], w:[D]) -> y:[*,D]",
      .infer = [](const TypeQuery& q,
                  std::vector<TensorType>&) { check_eps("rms_norm", q.attrs.as<RmsNormAttrs>().eps); },
      .vjp = vjp_by<rms_norm_def, rms_norm_grad_def>,
      .cost = per_element<4>,
      .decompose = decompose};
  return def;
}

const OpDef& rms_norm_grad_def() {
  static const OpDef def{.signature = "rms_norm_grad(x:[*,D], w:[D], dy:[*,D]) -> dx:[*,D], dw?:[D]",
                         .cost = per_element<10>,
                         .decompose = derivative_of<rms_norm_def, rms_norm_grad_def>};
  return def;
}

Value rms_norm(Value x, Value w, float eps) { return apply(rms_norm_def(), {x, w}, RmsNormAttrs{eps}); }

}  // namespace toy

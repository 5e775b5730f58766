// Rows of length one: x / sqrt(sum x^2 + eps). eps stands inside the root, as in the layers of Gated DeltaNet (Yang et
// al. 2024) that PyTorch trains; ggml's op of this name divides by max(|x|, eps) instead.
#include "ops/defs.h"

namespace toy {
namespace {

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value x = in[0], squares = sum(x * x, x.shape().rank() - 1);
  return {x * rsqrt(squares + g.scalar(attrs.as<L2NormAttrs>().eps, x.type().dtype))};
}

}  // namespace

const OpDef& l2_norm_def() {
  static const OpDef def{.signature = "l2_norm(x:[*,D]) -> y:[*,D]",
                         .infer = [](const TypeQuery& q,
                                     std::vector<TensorType>&) { check_eps("l2_norm", q.attrs.as<L2NormAttrs>().eps); },
                         .vjp = vjp_by<l2_norm_def, l2_norm_grad_def>,
                         .cost = per_element<3>,
                         .decompose = decompose};
  return def;
}

const OpDef& l2_norm_grad_def() {
  static const OpDef def{.signature = "l2_norm_grad(x:[*,D], dy:[*,D]) -> dx:[*,D]",
                         .cost = per_element<7>,
                         .decompose = derivative_of<l2_norm_def, l2_norm_grad_def>};
  return def;
}

Value l2_norm(Value x, float eps) { return apply(l2_norm_def(), {x}, L2NormAttrs{eps}); }

}  // namespace toy

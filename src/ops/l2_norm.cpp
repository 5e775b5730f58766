// Rows of length one: x / sqrt(sum x^2 + eps). eps stands inside the root, as in the layers of Gated DeltaNet (Yang et
// al. 2024) that PyTorch trains; ggml's op of this name divides by max(|x|, eps) instead.
#include "ops/defs.h"

namespace toy {
namespace {

void vjp(Vjp& c) { give_outputs(c, l2_norm_grad_def(), {c.in(0), c.grad(0)}); }

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value x = in[0], squares = sum(x * x, x.shape().rank() - 1);
  return {x * rsqrt(squares + g.scalar(attrs.as<L2NormAttrs>().eps, x.type().dtype))};
}

std::vector<Value> decompose_grad(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const std::vector<Value> wrt = independent(in.first(1));
  return pull_back(decompose(g, wrt, attrs)[0], in[1], wrt);
}

}  // namespace

const OpDef& l2_norm_def() {
  static const OpDef def{.signature = "l2_norm(x:[*,D]) -> y:[*,D]",
                         .infer = [](const TypeQuery& q,
                                     std::vector<TensorType>&) { check_eps("l2_norm", q.attrs.as<L2NormAttrs>().eps); },
                         .vjp = vjp,
                         .cost = per_element<3>,
                         .decompose = decompose};
  return def;
}

const OpDef& l2_norm_grad_def() {
  static const OpDef def{
      .signature = "l2_norm_grad(x:[*,D], dy:[*,D]) -> dx:[*,D]", .cost = per_element<7>, .decompose = decompose_grad};
  return def;
}

Value l2_norm(Value x, float eps) { return apply(l2_norm_def(), {x}, L2NormAttrs{eps}); }

}  // namespace toy

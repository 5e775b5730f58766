// The k largest elements of each row: what routes a row to its experts (Shazeer et al. 2017).
#include "ops/defs.h"

namespace toy {
namespace {

// Each value's gradient goes where it was found.
void vjp(Vjp& c) {
  if (!c.grad(0)) return;
  const Value found = cast(one_hot(c.out(1), c.in(0).dim(1)), c.in(0).type().dtype);
  const Value dx = sum(found * reshape(c.grad(0), {-1, c.out(1).dim(1), 1}), 1);
  c.give(0, reshape(dx, {-1, c.in(0).dim(1)}));
}

}  // namespace

const OpDef& top_k_def() {
  static const OpDef def{.signature = "top_k(x:[N,E]) -> y:[N,@k], ids:i32[N,@k]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const int64_t k = q.attrs.as<TopKAttrs>().k, n = q.in[0]->shape[1];
                               check(k >= 1 && k <= n, "top_k: k is {}, expected 1 to E={}", k, n);
                             },
                         .vjp = vjp,
                         .cost =
                             [](const CostQuery& q) {
                               return Cost{.flops = double(q.in[0]->count()) * double(q.attrs.as<TopKAttrs>().k)};
                             }};
  return def;
}

TopK top_k(Value x, int64_t k) {
  const Value first = apply(top_k_def(), {x}, TopKAttrs{k});
  return {first, output(first, 1)};
}

}  // namespace toy

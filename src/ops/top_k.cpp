// The k largest elements of each row: what routes a row to its experts (Shazeer et al. 2017).
#include "ops/defs.h"

namespace toy {
namespace {

// Each value's gradient goes where it was found.
void vjp(Vjp& c) {
  if (!c.grad(0)) return;
  const Value found = chosen(c.out(1), c.in(0).dim(1), c.in(0).type().dtype);
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

Value chosen(Value ids, int64_t n, DType dtype) {
  Graph& g = *ids.graph;
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(double(i));
  const Value all = g.constant({dtype, {1, 1, n}, 0}, std::move(numbers), "experts");
  const Value each = cast(reshape(ids, {-1, ids.dim(1), 1}), dtype);
  return where(equal(each, all), g.scalar(1, dtype), g.scalar(0, dtype));
}

}  // namespace toy

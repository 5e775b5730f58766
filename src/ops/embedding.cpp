#include "ops/defs.h"

namespace toy {
namespace {

void vjp(Vjp& c) {
  if (!c.needs(0)) return;
  const Value table = c.in(0), ids = c.in(1), dy = c.grad(0);
  check(table.type().dtype == dy.type().dtype, "embedding: the table is {}; only {} tables can be trained",
        name_of(table.type().dtype), name_of(dy.type().dtype));
  check(table.type().rows == 0, "embedding: gradient into run-time rows");
  c.give(
      0, [=](Value acc) { return embedding_grad(dy, ids, acc ? acc : fill(*dy.graph, table.shape(), 0)); }, true);
}

}  // namespace

const OpDef& embedding_def() {
  static const OpDef def{.signature = "embedding(table:weight[V,D], ids:i32[*]) -> y:[*,D]",
                         .vjp = vjp,
                         .cost = [](const CostQuery& q) { return Cost{.bytes = 2.0 * double(q.out[0].bytes())}; }};
  return def;
}

const OpDef& embedding_grad_def() {
  static const OpDef def{.signature = "embedding_grad(dy:[*,D], ids:i32[*], acc!:[V,D]) -> acc!:[V,D]",
                         .cost = [](const CostQuery& q) {
                           return Cost{.flops = double(q.in[0]->count()), .bytes = 3.0 * double(q.in[0]->bytes())};
                         }};
  return def;
}

Value embedding(Value table, Value ids) { return apply(embedding_def(), {table, ids}); }
Value embedding_grad(Value dy, Value ids, Value acc) { return apply(embedding_grad_def(), {dy, ids, acc}); }

}  // namespace toy

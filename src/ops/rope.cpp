// Rotary position embedding (Su et al. 2021, eq. 15): pairs of elements turn by an angle proportional to the position.
#include "ops/defs.h"

namespace toy {
namespace {

void infer(const TypeQuery& q, std::vector<TensorType>&) {
  const Shape &x = q.in[0]->shape, &table = q.in[2]->shape;
  check(2 * table[1] <= x[2], "rope: the table rotates 2 x {} elements, a head has P={}", table[1], x[2]);
}

void vjp(Vjp& c) {
  check(!c.needs(2), "rope: no gradient with respect to the table");
  RopeAttrs a = c.attrs().as<RopeAttrs>();
  a.inverse = !a.inverse;
  c.give(0, rope(c.grad(0), c.in(1), c.in(2), a));
}

// (y0, y1) = (x0 cos - x1 sin, x0 sin + x1 cos), the pair being columns or halves of the rotated part.
std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const RopeAttrs a = attrs.as<RopeAttrs>();
  const Value x = in[0], table = in[2];
  const int64_t heads = x.dim(1), width = x.dim(2), pairs = table.dim(1);
  const bool neighbour = a.pairing == RopePairing::neighbour;
  const Value turns = reshape(embedding(reshape(table, {table.dim(0), 2 * pairs}), in[1]), {-1, 1, pairs, 2});
  const auto as_column = [&](Value v) { return neighbour ? v : reshape(v, {-1, v.dim(1), 1, pairs}); };
  const Value cos = as_column(slice(turns, 3, 0, 1));
  const Value sin = scale(as_column(slice(turns, 3, 1, 1)), a.inverse ? -1 : 1);
  const Value part = slice(x, 2, 0, 2 * pairs);
  const Value p = reshape(part, neighbour ? Shape{-1, heads, pairs, 2} : Shape{-1, heads, 2, pairs});
  const int axis = neighbour ? 3 : 2;
  const Value x0 = slice(p, axis, 0, 1), x1 = slice(p, axis, 1, 1);
  const std::vector<Value> turned{x0 * cos - x1 * sin, x0 * sin + x1 * cos};
  std::vector<Value> parts{reshape(concat(turned, axis), {-1, heads, 2 * pairs})};
  if (2 * pairs < width) parts.push_back(slice(x, 2, 2 * pairs, width - 2 * pairs));
  return {parts.size() == 1 ? parts[0] : concat(parts, 2)};
}

}  // namespace

const OpDef& rope_def() {
  static const OpDef def{.signature = "rope(x:[N,H,P], pos:i32[N], table:[C,Q,2]) -> y:[N,H,P]",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = per_element<3, 2>,
                         .decompose = decompose};
  return def;
}

Value rope(Value x, Value pos, Value table, RopeAttrs attrs) { return apply(rope_def(), {x, pos, table}, attrs); }

}  // namespace toy

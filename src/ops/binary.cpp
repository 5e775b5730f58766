// add, sub, mul, div: one family, because they share everything but one line of maths.
#include <algorithm>

#include "ops/defs.h"

namespace toy {
namespace {

// numpy's rule: shapes are aligned at the end; a dimension of 1 (or a missing one) repeats.
void broadcast(const TypeQuery& q, std::vector<TensorType>& out) {
  const TensorType &a = *q.in[0], &b = *q.in[1];
  const int rank = std::max(a.shape.rank(), b.shape.rank());
  TensorType t{a.dtype, {}, 0};
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t da = i < a.shape.rank() ? a.shape.back(i) : 1, db = i < b.shape.rank() ? b.shape.back(i) : 1;
    check(da == db || da == 1 || db == 1, "elementwise: shapes {} and {} do not broadcast", a.shape.str(),
          b.shape.str());
    t.shape.push_back(da == 1 ? db : da);
  }
  const int ra = a.shape.rank() == rank ? a.rows : 0, rb = b.shape.rank() == rank ? b.rows : 0;
  check(ra == 0 || rb == 0 || ra == rb, "elementwise: different run-time row counts");
  check(ra == 0 || b.shape.rank() < rank || rb == ra || b.shape[0] == 1,
        "elementwise: {} and {}: fixed and run-time rows", a.str(), b.str());
  check(rb == 0 || a.shape.rank() < rank || rb == ra || a.shape[0] == 1,
        "elementwise: {} and {}: fixed and run-time rows", a.str(), b.str());
  t.rows = ra ? ra : rb;
  out[0] = t;
}

void add_vjp(Vjp& c) {
  for (int i = 0; i < 2; ++i)
    if (c.needs(i)) c.give(i, sum_to(c.grad(0), c.in(i).type()));
}
void sub_vjp(Vjp& c) {
  if (c.needs(0)) c.give(0, sum_to(c.grad(0), c.in(0).type()));
  if (c.needs(1)) c.give(1, sum_to(neg(c.grad(0)), c.in(1).type()));
}
void mul_vjp(Vjp& c) {
  if (c.needs(0)) c.give(0, sum_to(c.grad(0) * c.in(1), c.in(0).type()));
  if (c.needs(1)) c.give(1, sum_to(c.grad(0) * c.in(0), c.in(1).type()));
}
void div_vjp(Vjp& c) {  // d(a/b) = da/b - (a/b) db/b
  if (c.needs(0)) c.give(0, sum_to(c.grad(0) / c.in(1), c.in(0).type()));
  if (c.needs(1)) c.give(1, sum_to(neg(c.grad(0) * c.out(0) / c.in(1)), c.in(1).type()));
}

}  // namespace

const OpDef& add_def() {
  static const OpDef def{.signature = "add(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = add_vjp};
  return def;
}
const OpDef& sub_def() {
  static const OpDef def{.signature = "sub(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = sub_vjp};
  return def;
}
const OpDef& mul_def() {
  static const OpDef def{.signature = "mul(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = mul_vjp};
  return def;
}
const OpDef& div_def() {
  static const OpDef def{.signature = "div(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = div_vjp};
  return def;
}

Value add(Value a, Value b) { return a.graph->apply1(add_def(), {a, b}); }
Value sub(Value a, Value b) { return a.graph->apply1(sub_def(), {a, b}); }
Value mul(Value a, Value b) { return a.graph->apply1(mul_def(), {a, b}); }
Value div(Value a, Value b) { return a.graph->apply1(div_def(), {a, b}); }

}  // namespace toy

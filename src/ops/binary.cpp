// Elementwise functions of two operands, and where: one family, because they share everything but one line of maths.
#include <algorithm>

#include "ops/defs.h"

namespace toy {
namespace {

// numpy's rule: shapes are aligned at the end; a dimension of 1 (or a missing one) repeats.
TensorType broadcast_of(std::string_view op, const TensorType& a, const TensorType& b) {
  const int rank = std::max(a.shape.rank(), b.shape.rank());
  TensorType t{a.dtype, {}, 0};
  for (int i = rank - 1; i >= 0; --i) {
    const int64_t da = i < a.shape.rank() ? a.shape.back(i) : 1, db = i < b.shape.rank() ? b.shape.back(i) : 1;
    check(da == db || da == 1 || db == 1, "{}: shapes {} and {} do not broadcast", op, a.shape.str(), b.shape.str());
    t.shape.push_back(da == 1 ? db : da);
  }
  const int ra = a.rows, rb = b.rows;
  check((ra == 0 || a.shape.rank() == rank) && (rb == 0 || b.shape.rank() == rank),
        "{}: {} and {}: run-time rows must stay the first dimension", op, a.str(), b.str());
  check(ra == 0 || rb == 0 || ra == rb, "{}: different run-time row counts", op);
  check(ra == 0 || b.shape.rank() < rank || rb == ra || b.shape[0] == 1, "{}: {} and {}: fixed and run-time rows", op,
        a.str(), b.str());
  check(rb == 0 || a.shape.rank() < rank || rb == ra || a.shape[0] == 1, "{}: {} and {}: fixed and run-time rows", op,
        a.str(), b.str());
  t.rows = ra ? ra : rb;
  return t;
}

void broadcast(const TypeQuery& q, std::vector<TensorType>& out) {
  TensorType t = *q.in[0];
  for (size_t i = 1; i < q.in.size(); ++i) t = broadcast_of(q.op, t, *q.in[i]);
  t.dtype = out[0].dtype;  // the signature knows it
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

// dy to the operand that was taken. Equal operands: a was.
void give_to_taken(Vjp& c, Value b_was_taken) {
  const Value dy = c.grad(0), zero = c.graph().scalar(0, dy.type().dtype);
  if (c.needs(0)) c.give(0, sum_to(where(b_was_taken, zero, dy), c.in(0).type()));
  if (c.needs(1)) c.give(1, sum_to(where(b_was_taken, dy, zero), c.in(1).type()));
}
void maximum_vjp(Vjp& c) { give_to_taken(c, greater(c.in(1), c.in(0))); }
void minimum_vjp(Vjp& c) { give_to_taken(c, greater(c.in(0), c.in(1))); }
void where_vjp(Vjp& c) {
  const Value cond = c.in(0), dy = c.grad(0), zero = c.graph().scalar(0, dy.type().dtype);
  if (c.needs(1)) c.give(1, sum_to(where(cond, dy, zero), c.in(1).type()));
  if (c.needs(2)) c.give(2, sum_to(where(cond, zero, dy), c.in(2).type()));
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
const OpDef& maximum_def() {
  static const OpDef def{.signature = "maximum(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = maximum_vjp};
  return def;
}
const OpDef& minimum_def() {
  static const OpDef def{.signature = "minimum(a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = minimum_vjp};
  return def;
}
const OpDef& greater_def() {
  static const OpDef def{.signature = "greater(a:[...], b:[...]) -> y:i32[...]", .infer = broadcast};
  return def;
}
const OpDef& equal_def() {
  static const OpDef def{.signature = "equal(a:[...], b:[...]) -> y:i32[...]", .infer = broadcast};
  return def;
}
const OpDef& where_def() {
  static const OpDef def{
      .signature = "where(cond:i32[...], a:[...], b:[...]) -> y:[...]", .infer = broadcast, .vjp = where_vjp};
  return def;
}

Value add(Value a, Value b) { return apply(add_def(), {a, b}); }
Value sub(Value a, Value b) { return apply(sub_def(), {a, b}); }
Value mul(Value a, Value b) { return apply(mul_def(), {a, b}); }
Value div(Value a, Value b) { return apply(div_def(), {a, b}); }

namespace {

// A scalar of the dtype of x.
Value number(Value x, double v) {
  const DType dtype = x.type().dtype;  // refuses an empty value
  return x.graph->scalar(v, dtype);
}

}  // namespace

Value operator+(Value x, double y) { return add(x, number(x, y)); }
Value operator+(double x, Value y) { return add(number(y, x), y); }
Value operator-(Value x, double y) { return sub(x, number(x, y)); }
Value operator-(double x, Value y) { return sub(number(y, x), y); }
Value operator*(Value x, double y) { return scale(x, y); }
Value operator*(double x, Value y) { return scale(y, x); }
Value operator/(Value x, double y) { return div(x, number(x, y)); }
Value operator/(double x, Value y) { return div(number(y, x), y); }

Value maximum(Value a, Value b) { return apply(maximum_def(), {a, b}); }
Value minimum(Value a, Value b) { return apply(minimum_def(), {a, b}); }
Value greater(Value a, Value b) { return apply(greater_def(), {a, b}); }
Value equal(Value a, Value b) { return apply(equal_def(), {a, b}); }
Value where(Value cond, Value a, Value b) { return apply(where_def(), {cond, a, b}); }

}  // namespace toy

#include "ops/defs.h"

namespace toy {
namespace {

Shape keep_rows(const TensorType& t) {
  Shape s = t.shape;
  if (t.rows) s[0] = -1;
  return s;
}

}  // namespace

void reduce_axis(const TypeQuery& q, std::vector<TensorType>& out) {
  const int axis = q.attrs.as<AxisAttrs>().axis;
  out[0] = *q.in[0];
  check_axis(q.op, axis, out[0]);
  out[0].shape[axis] = 1;
  if (axis == 0) out[0].rows = 0;
}

const OpDef& sum_def() {
  static const OpDef def{.signature = "sum(x:[*]) -> y:[...]", .infer = reduce_axis, .vjp = [](Vjp& c) {
                           const TensorType x = c.in(0).type();
                           check(x.rows == 0 || c.attrs().as<AxisAttrs>().axis != 0,
                                 "sum: gradient over run-time rows");
                           c.give(0, broadcast_to(c.grad(0), keep_rows(x)));
                         }};
  return def;
}

Value sum(Value x, int axis) { return apply(sum_def(), {x}, AxisAttrs{axis}); }

Value mean(Value x, int axis) {
  const TensorType t = x.type();
  check_axis("mean", axis, t);
  check(axis != 0 || t.rows == 0, "mean: over run-time rows, whose number is not known; weigh them and sum");
  check(t.shape[axis] > 0, "mean: axis {} of {} is empty", axis, t.shape.str());
  return scale(sum(x, axis), 1.0 / double(t.shape[axis]));
}

Value sum_all(Value x) {
  for (int i = x.shape().rank() - 1; i >= 0; --i) x = sum(x, i);
  return reshape(x, {});
}

Value sum_to(Value x, const TensorType& like) {
  if (x.type() == like) return x;
  const int extra = x.shape().rank() - like.shape.rank();
  for (int i = 0; i < x.shape().rank(); ++i)
    if ((i < extra || like.shape[i - extra] == 1) && (x.dim(i) != 1 || (i == 0 && x.type().rows != like.rows)))
      x = sum(x, i);
  return x.shape() == like.shape ? x : reshape(x, keep_rows(like));
}

}  // namespace toy

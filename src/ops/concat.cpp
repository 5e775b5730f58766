#include "ops/defs.h"

namespace toy {

const OpDef& concat_def() {
  static const OpDef def{.signature = "concat(xs...:[...]) -> y:[...]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>& out) {
                               const int axis = q.attrs.as<AxisAttrs>().axis;
                               out[0] = *q.in[0];
                               check_axis("concat", axis, out[0]);
                               for (const TensorType* t : q.in)  // a block of fixed size goes along with run-time rows
                                 if (axis != 0 && out[0].rows == 0) out[0].rows = t->rows;
                               for (size_t i = 1; i < q.in.size(); ++i) {
                                 TensorType t = *q.in[i];
                                 check(t.shape.rank() == out[0].shape.rank(),
                                       "concat: xs[{}] has {} dimensions, xs[0] has {}", i, t.shape.rank(),
                                       out[0].shape.rank());
                                 const int64_t size = t.shape[axis];
                                 t.shape[axis] = out[0].shape[axis];
                                 if (axis != 0 && t.rows == 0) t.rows = out[0].rows;
                                 check(t == out[0], "concat: xs[{}] is {}, xs[0] is {}; only axis {} may differ", i,
                                       q.in[i]->str(), q.in[0]->str(), axis);
                                 check(axis != 0 || (t.rows == 0), "concat: run-time rows cannot be joined");
                                 out[0].shape[axis] += size;
                               }
                             },
                         .vjp =
                             [](Vjp& c) {
                               const int axis = c.attrs().as<AxisAttrs>().axis;
                               int64_t at = 0;
                               for (int i = 0; i < c.inputs(); ++i) {
                                 const int64_t size = c.in(i).dim(axis);
                                 if (c.needs(i)) c.give(i, slice(c.grad(0), axis, at, size));
                                 at += size;
                               }
                             }};
  return def;
}

Value concat(std::span<const Value> xs, int axis) {
  check(!xs.empty(), "concat: no operands");
  return apply(concat_def(), {xs.begin(), xs.end()}, AxisAttrs{axis});
}

}  // namespace toy

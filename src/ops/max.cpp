#include "ops/defs.h"

namespace toy {
namespace {

// dx = dy at the first of the largest elements. Of the elements equal to y, counted along the axis, it is number one.
void vjp(Vjp& c) {
  const Value x = c.in(0), y = c.out(0), dy = c.grad(0);
  const Value one = c.graph().scalar(1, x.type().dtype), zero = c.graph().scalar(0, x.type().dtype);
  const Value is_largest = where(equal(x, y), one, zero);
  const Value number = is_largest * cumsum(is_largest, c.attrs().as<AxisAttrs>().axis);
  c.give(0, where(equal(number, one), dy, zero));
}

}  // namespace

const OpDef& max_def() {
  static const OpDef def{
      .signature = "max(x:[*]) -> y:[...]", .infer = reduce_axis, .vjp = vjp, .cost = [](const CostQuery& q) {
        return Cost{.flops = double(q.in[0]->count())};
      }};
  return def;
}

Value max(Value x, int axis) { return apply(max_def(), {x}, AxisAttrs{axis}); }

}  // namespace toy

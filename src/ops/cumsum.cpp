#include "ops/defs.h"

namespace toy {

const OpDef& cumsum_def() {
  static const OpDef def{.signature = "cumsum(x:[*]) -> y:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const int axis = q.attrs.as<CumsumAttrs>().axis, rank = q.in[0]->shape.rank();
                               check(axis >= 0 && axis < rank, "cumsum: axis {} of {} dimensions", axis, rank);
                             },
                         .vjp = [](Vjp& c) {  // x_i is in y_i and all behind it: dx is dy summed from the other end
                           const CumsumAttrs a = c.attrs().as<CumsumAttrs>();
                           c.give(0, cumsum(c.grad(0), a.axis, !a.reverse));
                         }};
  return def;
}

Value cumsum(Value x, int axis, bool reverse) { return apply(cumsum_def(), {x}, CumsumAttrs{axis, reverse}); }

}  // namespace toy

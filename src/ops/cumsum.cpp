#include "ops/defs.h"

namespace toy {

const OpDef& cumsum_def() {
  static const OpDef def{
      .signature = "cumsum(x:[*]) -> y:[*]",
      .infer = [](const TypeQuery& q,
                  std::vector<TensorType>&) { check_axis("cumsum", q.attrs.as<CumsumAttrs>().axis, *q.in[0]); },
      .vjp = [](Vjp& c) {  // y_i and all later ones contain x_i: dx sums dy from the other end
        const CumsumAttrs a = c.attrs().as<CumsumAttrs>();
        c.give(0, cumsum(c.grad(0), a.axis, !a.reverse));
      }};
  return def;
}

Value cumsum(Value x, int axis, bool reverse) { return apply(cumsum_def(), {x}, CumsumAttrs{axis, reverse}); }

}  // namespace toy

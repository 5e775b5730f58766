#include "ops/defs.h"

namespace toy {

const OpDef& softmax_def() {
  static const OpDef def{.signature = "softmax(x:[*,D]) -> y:[*,D]",
                         .vjp =
                             [](Vjp& c) {  // dx = y (dy - sum(y dy))
                               const Value y = c.out(0), ydy = y * c.grad(0);
                               c.give(0, ydy - y * sum(ydy, y.shape().rank() - 1));
                             },
                         .cost = per_element<4, 0, 1>};
  return def;
}

Value softmax(Value x) { return apply(softmax_def(), {x}); }

}  // namespace toy

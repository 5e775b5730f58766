#include "ops/defs.h"

namespace toy {

const OpDef& stop_gradient_def() {
  static const OpDef def{.signature = "stop_gradient(x:[*]) -> y:[*]",
                         .vjp = [](Vjp&) {},
                         .view = [](const View& in, const Attrs&) -> std::optional<View> { return in; }};
  return def;
}

Value stop_gradient(Value x) { return apply(stop_gradient_def(), {x}); }

}  // namespace toy

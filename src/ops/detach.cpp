#include "ops/defs.h"

namespace toy {

const OpDef& detach_def() {
  static const OpDef def{.signature = "detach(x:[*]) -> y:[*]",
                         .vjp = [](Vjp&) {},
                         .view = [](const View& in, const Attrs&) { return std::optional(in); }};
  return def;
}

Value detach(Value x) { return apply(detach_def(), {x}); }

}  // namespace toy

// Adds to what is kept between runs: gradients of several batches.
#include "ops/defs.h"

namespace toy {

const OpDef& accumulate_def() {
  static const OpDef def{
      .signature = "accumulate(acc!:[*], x:[*]) -> acc!:[*]",
      .cost = per_element<1, 3>,
      .decompose = [](Graph&, std::span<const Value> in, const Attrs&) { return std::vector<Value>{in[0] + in[1]}; }};
  return def;
}

Value accumulate(Value acc, Value x) { return apply(accumulate_def(), {acc, x}); }

}  // namespace toy

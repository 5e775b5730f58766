#include "ops/defs.h"

namespace toy {

const OpDef& fill_def() {
  static const OpDef def{.signature = "fill() -> y:[...]",
                         .infer = [](const TypeQuery& q, std::vector<TensorType>& out) {
                           out[0] = {DType::f32, q.attrs.as<FillAttrs>().shape, 0};
                         }};
  return def;
}

Value fill(Graph& g, const Shape& shape, double value) {
  return {&g, g.apply(fill_def(), {}, FillAttrs{shape, value}), 0};
}

}  // namespace toy

#include "ops/defs.h"

namespace toy {

const OpDef& cast_def() {
  static const OpDef def{.signature = "cast(x:any[*]) -> y:[*]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>& out) {
                               const DType to = q.attrs.as<CastAttrs>().to;
                               check(size_t(to) < std::size(kDTypes), "cast: there is no dtype number {}", int(to));
                               check(!is_quantized(to), "cast: to {}, a quantized type", name_of(to));
                               out[0].dtype = to;
                             },
                         .vjp =
                             [](Vjp& c) {
                               check(is_float(c.in(0).type().dtype), "cast: integers have no gradient");
                               c.give(0, cast(c.grad(0), c.in(0).type().dtype));
                             }};
  return def;
}

Value cast(Value x, DType to) { return apply(cast_def(), {x}, CastAttrs{to}); }

}  // namespace toy

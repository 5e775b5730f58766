#include "ops/defs.h"

namespace toy {

const OpDef& permute_def() {
  static const OpDef def{
      .signature = "permute(x:any[...]) -> y:[...]",
      .infer =
          [](const TypeQuery& q, std::vector<TensorType>& out) {
            const Shape& order = q.attrs.as<PermuteAttrs>().order;
            const TensorType& x = *q.in[0];
            check(order.rank() == x.shape.rank(), "permute: order {} for {} dimensions", order.str(), x.shape.rank());
            TensorType t{x.dtype, {}, 0};
            int seen = 0;
            for (const int64_t d : order) {
              check(d >= 0 && d < x.shape.rank() && !(seen & (1 << d)), "permute: {} is not an order of {} dimensions",
                    order.str(), x.shape.rank());
              seen |= 1 << d;
              t.shape.push_back(x.shape[int(d)]);
            }
            check(x.rows == 0 || order[0] == 0, "permute: run-time rows must stay the first dimension");
            t.rows = x.rows;
            out[0] = t;
          },
      .vjp =
          [](Vjp& c) {
            const Shape order = c.attrs().as<PermuteAttrs>().order;
            Shape back = order;
            for (int i = 0; i < order.rank(); ++i) back[int(order[i])] = i;
            c.give(0, permute(c.grad(0), back));
          },
      .view = [](const View& in, const Attrs& attrs) -> std::optional<View> {
        const Shape& order = attrs.as<PermuteAttrs>().order;
        View v = in;
        for (int i = 0; i < order.rank(); ++i) {
          v.shape[i] = in.shape[int(order[i])];
          v.stride[size_t(i)] = in.stride[size_t(order[i])];
        }
        return v;
      }};
  return def;
}

Value permute(Value x, const Shape& order) { return apply(permute_def(), {x}, PermuteAttrs{order}); }

}  // namespace toy

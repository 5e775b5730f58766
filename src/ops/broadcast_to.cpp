#include "ops/defs.h"

namespace toy {

const OpDef& broadcast_to_def() {
  static const OpDef def{
      .signature = "broadcast_to(x:any[...]) -> y:[...]",
      .infer =
          [](const TypeQuery& q, std::vector<TensorType>& out) {
            const TensorType& x = *q.in[0];
            out[0] = resolve_shape(q.op, q.attrs.as<ShapeAttrs>().shape, x);
            const int extra = out[0].shape.rank() - x.shape.rank();
            bool ok = extra >= 0;
            for (int i = 0; ok && i < x.shape.rank(); ++i)
              ok = x.shape[i] == 1 || x.shape[i] == out[0].shape[i + extra];
            check(ok, "broadcast_to: {} does not repeat to {}", x.shape.str(), out[0].shape.str());
            check(out[0].rows == x.rows && (x.rows == 0 || extra == 0),
                  "broadcast_to: {} has run-time rows; keep them with a first dimension of -1", x.str());
          },
      .vjp = [](Vjp& c) { c.give(0, sum_to(c.grad(0), c.in(0).type())); },
      .view = [](const View& in, const Attrs& attrs) -> std::optional<View> {
        Shape shape = attrs.as<ShapeAttrs>().shape;
        if (shape.rank() > 0 && shape[0] == -1) shape[0] = in.shape[0];
        View v(in.data, in.dtype, shape);
        const int extra = shape.rank() - in.shape.rank();
        for (int i = 0; i < shape.rank(); ++i)
          v.stride[size_t(i)] = i < extra || in.shape[i - extra] == 1 ? 0 : in.stride[size_t(i - extra)];
        return v;
      }};
  return def;
}

Value broadcast_to(Value x, const Shape& shape) { return apply(broadcast_to_def(), {x}, ShapeAttrs{shape}); }

}  // namespace toy

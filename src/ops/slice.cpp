#include "ops/defs.h"

namespace toy {

const OpDef& slice_def() {
  static const OpDef def{
      .signature = "slice(x:any[...]) -> y:[...]",
      .infer =
          [](const TypeQuery& q, std::vector<TensorType>& out) {
            const SliceAttrs& a = q.attrs.as<SliceAttrs>();
            const TensorType& x = *q.in[0];
            check_axis("slice", a.axis, x);
            check(a.begin >= 0 && a.count >= 0 && a.begin <= x.shape[a.axis] && a.count <= x.shape[a.axis] - a.begin,
                  "slice: {} elements from {} on of axis {} with {}", a.count, a.begin, a.axis, x.shape[a.axis]);
            check(x.rows == 0 || a.axis != 0, "slice: run-time rows cannot be sliced; pick rows with embedding()");
            out[0] = x;
            out[0].shape[a.axis] = a.count;
          },
      .vjp =
          [](Vjp& c) {
            const SliceAttrs a = c.attrs().as<SliceAttrs>();
            const TensorType x = c.in(0).type();
            c.give(0, pad(c.grad(0), a.axis, a.begin, x.shape[a.axis] - a.begin - a.count));
          },
      .view = [](const View& in, const Attrs& attrs) -> std::optional<View> {
        const SliceAttrs& a = attrs.as<SliceAttrs>();
        View v = in;
        v.shape[a.axis] = a.count;
        v.data = static_cast<std::byte*>(in.data) + size_t(a.begin * in.stride[size_t(a.axis)]) * size_of(in.dtype);
        return v;
      }};
  return def;
}

Value slice(Value x, int axis, int64_t begin, int64_t count) {
  return apply(slice_def(), {x}, SliceAttrs{axis, begin, count});
}

}  // namespace toy

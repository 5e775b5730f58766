#include "ops/defs.h"

namespace toy {
namespace {

// Zeros around dy: the gradient of taking a part.
Value pad_back(Value dy, const TensorType& x, const SliceAttrs& a) {
  std::vector<Value> parts;
  const auto zeros = [&](int64_t count) {
    Shape s = x.shape;
    s[a.axis] = count;
    return fill(*dy.graph, s, 0);
  };
  if (a.begin > 0) parts.push_back(zeros(a.begin));
  parts.push_back(dy);
  if (const int64_t rest = x.shape[a.axis] - a.begin - a.count; rest > 0) parts.push_back(zeros(rest));
  return parts.size() == 1 ? dy : concat(parts, a.axis);
}

}  // namespace

const OpDef& slice_def() {
  static const OpDef def{
      .signature = "slice(x:any[...]) -> y:[...]",
      .infer =
          [](const TypeQuery& q, std::vector<TensorType>& out) {
            const SliceAttrs& a = q.attrs.as<SliceAttrs>();
            const TensorType& x = *q.in[0];
            check(a.axis >= 0 && a.axis < x.shape.rank(), "slice: axis {} of {} dimensions", a.axis, x.shape.rank());
            check(a.begin >= 0 && a.count >= 0 && a.begin + a.count <= x.shape[a.axis],
                  "slice: elements [{}, {}) of axis {} with {}", a.begin, a.begin + a.count, a.axis, x.shape[a.axis]);
            check(x.rows == 0 || a.axis != 0, "slice: run-time rows cannot be sliced; pick rows with embedding()");
            out[0] = x;
            out[0].shape[a.axis] = a.count;
          },
      .vjp =
          [](Vjp& c) {
            const SliceAttrs a = c.attrs().as<SliceAttrs>();
            const TensorType x = c.in(0).type();
            check(x.rows == 0 || a.count == x.shape[a.axis] || x.shape.rank() == 1 || a.axis != 0,
                  "slice: gradient of run-time rows");
            c.give(0, pad_back(c.grad(0), x, a));
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
  return x.graph->apply1(slice_def(), {x}, SliceAttrs{axis, begin, count});
}

}  // namespace toy

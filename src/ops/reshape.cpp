#include "ops/defs.h"

namespace toy {
namespace {

std::optional<View> view(const View& in, const Attrs& attrs) {
  if (!in.contiguous()) return std::nullopt;
  Shape shape = attrs.as<ShapeAttrs>().shape;
  if (shape.rank() > 0 && shape[0] == -1) shape[0] = in.shape[0];
  return View(in.data, in.dtype, shape);
}

}  // namespace

const OpDef& reshape_def() {
  static const OpDef def{.signature = "reshape(x:any[...]) -> y:[...]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>& out) {
                               out[0] = resolve_shape(q.op, q.attrs.as<ShapeAttrs>().shape, *q.in[0]);
                               check(out[0].count() == q.in[0]->count(), "reshape: {} has {} elements, {} has {}",
                                     q.in[0]->shape.str(), q.in[0]->count(), out[0].shape.str(), out[0].count());
                               check(out[0].rows == q.in[0]->rows,
                                     "reshape: {} has run-time rows; keep them with a first dimension of -1",
                                     q.in[0]->str());
                             },
                         .vjp =
                             [](Vjp& c) {
                               Shape back = c.in(0).shape();
                               if (c.in(0).type().rows) back[0] = -1;
                               c.give(0, reshape(c.grad(0), back));
                             },
                         .view = view};
  return def;
}

Value reshape(Value x, const Shape& shape) { return apply(reshape_def(), {x}, ShapeAttrs{shape}); }

}  // namespace toy

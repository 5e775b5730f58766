// Adafactor (Shazeer and Stern 2018): the second moments of a matrix from the means of its rows and columns, updates
// whose root mean square is clipped. As torch.optim.Adafactor has it: no first moment, a decay of the weights beside
// the update, small second moments raised to eps^2 rather than eps^2 added to every square.
#include <cmath>

#include "ops/defs.h"

namespace toy {
namespace {

void check_attrs(const TypeQuery& q, std::vector<TensorType>&) {
  const AdafactorAttrs& a = q.attrs.as<AdafactorAttrs>();
  check(a.eps > 0 && std::isfinite(a.eps), "adafactor: eps is {}, expected a small positive number", a.eps);
  check(a.clip > 0 && std::isfinite(a.clip), "adafactor: clip is {}, expected a positive number", a.clip);
}

Value mean_all(Value x) { return scale(sum_all(x), 1.0 / double(x.type().count())); }

// w' from w, the scaled gradient and the second moments of its elements.
Value stepped(Graph& g, Value w, Value grad, Value second, Value lr, const AdafactorAttrs& a) {
  const DType t = w.type().dtype;
  const Value one = g.scalar(1, t);
  const Value u = grad / sqrt(maximum(second, g.scalar(a.eps * a.eps, t)));
  const Value clipped = u / maximum(one, scale(sqrt(mean_all(sqr(u))), 1 / a.clip));
  const Value size = a.relative ? maximum(g.scalar(a.smallest_scale, t), sqrt(mean_all(sqr(w)))) : one;
  return w - w * scale(lr, a.weight_decay) - clipped * (lr * size);
}

// x + mix (target - x)
Value nearer(Value x, Value target, Value mix) { return x + (target - x) * mix; }

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const AdafactorAttrs a = attrs.as<AdafactorAttrs>();
  const Value w = in[0], grad = scaled(in[1], in[6]), mix = in[5];
  const int64_t rows = w.dim(0), columns = w.dim(1);
  const Value row = nearer(in[2], reshape(mean(sqr(grad), 1), {rows}), mix);
  const Value col = nearer(in[3], reshape(mean(sqr(grad), 0), {columns}), mix);
  const Value of_rows = row / maximum(mean_all(row), g.scalar(a.eps, w.type().dtype));
  return {stepped(g, w, grad, reshape(of_rows, {rows, 1}) * col, in[4], a), row, col};
}

std::vector<Value> decompose_vector(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const Value grad = scaled(in[1], in[5]), v = nearer(in[2], sqr(grad), in[4]);
  return {stepped(g, in[0], grad, v, in[3], attrs.as<AdafactorAttrs>()), v};
}

}  // namespace

const OpDef& adafactor_def() {
  static const OpDef def{.signature =
                             "adafactor(w!:[R,C], g:[R,C], row!:[R], col!:[C], lr:[], mix:[], gscale?:[]) -> "
                             "w!:[R,C], row!:[R], col!:[C]",
                         .infer = check_attrs,
                         .cost = per_element<16, 5>,
                         .decompose = decompose};
  return def;
}

const OpDef& adafactor_vector_def() {
  static const OpDef def{.signature =
                             "adafactor_vector(w!:[*], g:[*], v!:[*], lr:[], mix:[], gscale?:[]) -> "
                             "w!:[*], v!:[*]",
                         .infer = check_attrs,
                         .cost = per_element<16, 7>,
                         .decompose = decompose_vector};
  return def;
}

AdafactorState adafactor(AdafactorState s, Value g, Value lr, Value mix, Value gscale, AdafactorAttrs attrs) {
  if (!s.col) {
    const Value first = apply(adafactor_vector_def(), {s.w, g, s.row, lr, mix, gscale}, attrs);
    return {first, output(first, 1), {}};
  }
  const Value first = apply(adafactor_def(), {s.w, g, s.row, s.col, lr, mix, gscale}, attrs);
  return {first, output(first, 1), output(first, 2)};
}

}  // namespace toy

#include <algorithm>

#include "ops/defs.h"

namespace toy {
namespace {

// numpy's rule for the leading dimensions: aligned at the end, 1 or a missing one repeats.
Shape broadcast_leading(const TensorType& a, const TensorType& b) {
  Shape s;
  for (int i = std::max(a.shape.rank(), b.shape.rank()) - 1; i >= 2; --i) {
    const int64_t da = i < a.shape.rank() ? a.shape.back(i) : 1, db = i < b.shape.rank() ? b.shape.back(i) : 1;
    check(da == db || da == 1 || db == 1, "matmul: a is {}, b is {}; leading dimensions do not broadcast", a.str(),
          b.str());
    s.push_back(da == 1 ? db : da);
  }
  return s;
}

void infer(const TypeQuery& q, std::vector<TensorType>& out) {
  const MatmulAttrs& t = q.attrs.as<MatmulAttrs>();
  const TensorType &a = *q.in[0], &b = *q.in[1];
  check(a.shape.rank() >= 2 && b.shape.rank() >= 2, "matmul: a is {}, b is {}; both need at least 2 dimensions",
        a.str(), b.str());
  const int64_t m = a.shape.back(t.transpose_a ? 0 : 1), ka = a.shape.back(t.transpose_a ? 1 : 0);
  const int64_t n = b.shape.back(t.transpose_b ? 1 : 0), kb = b.shape.back(t.transpose_b ? 0 : 1);
  check(ka == kb, "matmul: a has K={}, b has K={}", ka, kb);
  check(a.rows == 0 && b.rows == 0, "matmul: run-time rows are not supported; use linear()");
  out[0] = {a.dtype, broadcast_leading(a, b), 0};
  out[0].shape.push_back(m);
  out[0].shape.push_back(n);
}

Cost cost(const CostQuery& q) {
  const auto& a = q.attrs.as<MatmulAttrs>();
  return {.flops = 2.0 * double(q.out[0].count()) * double(q.in[0]->shape.back(a.transpose_a ? 1 : 0))};
}

// C = A B: dA = dC B^T, dB = A^T dC; the transposes of the operands are followed through, and what was repeated is
// summed.
void vjp(Vjp& c) {
  const MatmulAttrs t = c.attrs().as<MatmulAttrs>();
  const Value a = c.in(0), b = c.in(1), dc = c.grad(0);
  if (c.needs(0)) {
    const Value da = t.transpose_a ? matmul(b, dc, {t.transpose_b, true}) : matmul(dc, b, {false, !t.transpose_b});
    c.give(0, sum_to(da, a.type()));
  }
  if (c.needs(1)) {
    const Value db = t.transpose_b ? matmul(dc, a, {true, t.transpose_a}) : matmul(a, dc, {!t.transpose_a, false});
    c.give(1, sum_to(db, b.type()));
  }
}

}  // namespace

const OpDef& matmul_def() {
  static const OpDef def{.signature = "matmul(a:[...], b:[...]) -> y:[...]", .infer = infer, .vjp = vjp, .cost = cost};
  return def;
}

Value matmul(Value a, Value b, MatmulAttrs attrs) { return apply(matmul_def(), {a, b}, attrs); }

}  // namespace toy

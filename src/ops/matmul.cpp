#include "ops/defs.h"

namespace toy {
namespace {

void infer(const TypeQuery& q, std::vector<TensorType>& out) {
  const MatmulAttrs& a = q.attrs.as<MatmulAttrs>();
  const TensorType &x = *q.in[0], &y = *q.in[1];
  const int r = x.shape.rank();
  check(r >= 2 && y.shape.rank() == r, "matmul: a is {}, b is {}; both need the same number of dimensions, at least 2",
        x.str(), y.str());
  const int64_t m = x.shape[a.transpose_a ? r - 1 : r - 2], ka = x.shape[a.transpose_a ? r - 2 : r - 1];
  const int64_t n = y.shape[a.transpose_b ? r - 2 : r - 1], kb = y.shape[a.transpose_b ? r - 1 : r - 2];
  check(ka == kb, "matmul: a has K={}, b has K={}", ka, kb);
  for (int i = 0; i < r - 2; ++i)
    check(x.shape[i] == y.shape[i], "matmul: a is {}, b is {}; leading dimensions differ", x.str(), y.str());
  check(x.rows == 0 && y.rows == 0, "matmul: run-time rows are not supported; use linear()");
  out[0] = x;
  out[0].shape[r - 2] = m;
  out[0].shape[r - 1] = n;
}

Cost cost(const CostQuery& q) {
  const auto& a = q.attrs.as<MatmulAttrs>();
  const int r = q.in[0]->shape.rank();
  return {.flops = 2.0 * double(q.out[0].count()) * double(q.in[0]->shape[a.transpose_a ? r - 2 : r - 1])};
}

// C = A B: dA = dC B^T, dB = A^T dC; the transposes of the operands are followed through.
void vjp(Vjp& c) {
  const MatmulAttrs t = c.attrs().as<MatmulAttrs>();
  const Value a = c.in(0), b = c.in(1), dc = c.grad(0);
  if (c.needs(0))
    c.give(0, t.transpose_a ? matmul(b, dc, {t.transpose_b, true}) : matmul(dc, b, {false, !t.transpose_b}));
  if (c.needs(1))
    c.give(1, t.transpose_b ? matmul(dc, a, {true, t.transpose_a}) : matmul(a, dc, {!t.transpose_a, false}));
}

}  // namespace

const OpDef& matmul_def() {
  static const OpDef def{.signature = "matmul(a:[...], b:[...]) -> y:[...]", .infer = infer, .vjp = vjp, .cost = cost};
  return def;
}

Value matmul(Value a, Value b, MatmulAttrs attrs) { return a.graph->apply1(matmul_def(), {a, b}, attrs); }

}  // namespace toy

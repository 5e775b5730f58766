#include "ops/defs.h"

namespace toy {
namespace {

Cost cost(const CostQuery& q) { return {.flops = 2.0 * double(q.in[0]->count()) * double(q.in[1]->shape[0])}; }

void vjp(Vjp& c) {
  const Value x = c.in(0), w = c.in(1), dy = c.grad(0);
  if (c.needs(0)) c.give(0, [=](Value acc) { return linear_grad_x(dy, w, acc); });
  if (c.needs(1)) {
    check(w.type().dtype == dy.type().dtype, "linear: the weight '{}' is {}; only {} weights can be trained",
          c.graph().node(w).name, name_of(w.type().dtype), name_of(dy.type().dtype));
    c.give(1, [=](Value acc) { return linear_grad_w(dy, x, acc); });
  }
  if (c.needs(2)) c.give(2, reshape(sum(dy, 0), {dy.dim(1)}));
  if (c.needs(3)) c.give(3, dy);
}

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) {
  if (is_quantized(in[1].type().dtype)) return {};  // there is nothing simpler
  Value y = matmul(in[0], as_type_of(in[0], in[1]), {false, true});
  if (in[2]) y = y + in[2];
  if (in[3]) y = y + in[3];
  return {y};
}

}  // namespace

const OpDef& linear_def() {
  static const OpDef def{.signature = "linear(x:[N,I], w:weight[O,I], bias?:[O], acc?:[N,O]) -> y:[N,O]",
                         .vjp = vjp,
                         .cost = cost,
                         .decompose = decompose};
  return def;
}

Value linear(Value x, Value w, Value bias, Value acc) { return apply(linear_def(), {x, w, bias, acc}); }

}  // namespace toy

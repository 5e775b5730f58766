// Dropout (Srivastava et al. 2014) with random numbers that are a function of (seed, step, place, element): backward
// makes the same mask again, for any number of threads, and a run that is resumed goes on as it would have.
#include "ops/defs.h"

namespace toy {
namespace {

void infer(const TypeQuery& q, std::vector<TensorType>&) {
  const double p = q.attrs.as<DropoutAttrs>().p;
  check(p >= 0 && p < 1, "dropout: p is {}, expected 0 to below 1", p);
  check(q.in[0]->count() <= int64_t(1) << 34, "dropout: x has {} elements, expected at most 2^34", q.in[0]->count());
}

void vjp(Vjp& c) { c.give(0, dropout(c.grad(0), c.in(1), c.attrs().as<DropoutAttrs>())); }

}  // namespace

const OpDef& dropout_def() {
  static const OpDef def{.signature = "dropout(x:[*], random:i32[3]) -> y:[*]",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = per_element<6, 2>};  // ten rounds of two products for four elements
  return def;
}

Value dropout(Value x, Value random, DropoutAttrs attrs) {
  return attrs.p == 0 ? x : apply(dropout_def(), {x, random}, attrs);
}

}  // namespace toy

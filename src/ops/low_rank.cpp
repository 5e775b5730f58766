// A low-rank change of some rows (LoRA), for batches in which rows differ in the adapters that they use. Kernels
// compute the other rows not at all; the decomposition adds zeros to them. It is for decoding and has no gradient.
#include "ops/defs.h"

namespace toy {
namespace {

Cost cost(const CostQuery& q) {
  const double rank = double(q.in[1]->shape[0]);
  return {.flops = 2 * rank * double(q.in[0]->count() + q.out[0].count())};
}

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  const Value low = linear(in[0], in[1]);
  return {linear(low * reshape(apply(scale_def(), {in[4]}, attrs), {-1, 1}), in[2], {}, in[3])};
}

}  // namespace

const OpDef& low_rank_def() {
  static const OpDef def{
      .signature = "low_rank(x:[N,I], a:weight[R,I], b:weight[O,R], acc:[N,O], factor:[N]) -> y:[N,O]",
      .cost = cost,
      .decompose = decompose};
  return def;
}

Value low_rank(Value x, Value a, Value b, Value acc, Value factor, double scale) {
  return apply(low_rank_def(), {x, a, b, acc, factor}, ScaleAttrs{scale});
}

}  // namespace toy

// Output projection and cross-entropy in one pass over chunks of rows. The gradients with respect to x and w are made
// while a chunk's logits are at hand, so backward neither keeps nor recomputes them.
#include <cmath>

#include "ops/defs.h"

namespace toy {
namespace {

enum In { kX, kW, kTargets, kWeight, kU, kB };
enum Out { kLoss, kNll, kDx, kDw, kDu, kDb };

void infer(const TypeQuery& q, std::vector<TensorType>& out) {
  const int64_t vocab = q.in[1]->shape[0];
  check(vocab > 0, "linear_xent: w has V={}, expected at least 1", vocab);
  const double softcap = q.attrs.as<LinearXentAttrs>().softcap;
  check(softcap >= 0 && std::isfinite(softcap), "linear_xent: softcap is {}, expected 0 (none) or more", softcap);
  check((q.in[kU] != nullptr) == (q.in[kB] != nullptr), "linear_xent: one of u and b is absent; give both or none");
  for (const auto& [gradient, of] : {std::pair(kDu, kU), std::pair(kDb, kB)})
    out[gradient] = q.in[of] ? *q.in[of] : TensorType{q.in[kX]->dtype, {0}, 0};
}

void vjp(Vjp& c) {
  check(!c.grad(kNll), "linear_xent: only the loss has a gradient, weight the rows instead of using nll");
  const Value dloss = c.grad(kLoss);
  const auto scaled = [&](Value v) { return is_one(dloss) ? v : v * dloss; };
  if (c.needs(kX)) c.give(kX, scaled(c.out(kDx)));
  if (c.needs(kW)) {
    const Value w = c.in(kW);
    check(!is_quantized(w.type().dtype), "linear_xent: the weight '{}' is {}; only float weights can be trained",
          c.graph().node(w).name, name_of(w.type().dtype));
    c.give(kW, scaled(c.out(kDw)));
  }
  if (c.needs(kU)) c.give(kU, scaled(c.out(kDu)));
  if (c.needs(kB)) c.give(kB, scaled(c.out(kDb)));
  check(!c.needs(kWeight), "linear_xent: no gradient with respect to the rows' weights");
}

Cost cost(const CostQuery& q) {
  const double columns = double(q.in[kX]->count()) + (q.in[kU] ? double(q.in[kU]->count()) : 0);
  const double product = 2.0 * columns * double(q.in[kW]->shape[0]);
  return {.flops = 3 * product, .transcendentals = double(q.in[0]->shape[0] * q.in[1]->shape[0])};
}

std::vector<Value> decompose(Graph& graph, std::span<const Value> in, const Attrs& attrs) {
  if (is_quantized(in[1].type().dtype)) return {};
  std::vector<Value> wrt = independent(in.first(2));
  if (in[kU]) {
    const std::vector<Value> low = independent(in.subspan(kU, 2));
    wrt.insert(wrt.end(), low.begin(), low.end());
  }
  const Value x = wrt[0], w = wrt[1], weight = in[kWeight];
  const int64_t rows = x.dim(0), vocab = w.dim(0);
  Value scores = linear(x, w);
  if (in[kU]) scores = linear(wrt[2], wrt[3], {}, scores);
  const Value logits = softcapped(scores, attrs.as<LinearXentAttrs>().softcap), hot = one_hot(in[kTargets], vocab);
  const Value lse = log(sum(exp(logits), 1));  // no maximum taken out: a definition, not an algorithm
  const Value nll = sum(hot, 1) * lse - sum(hot * logits, 1);
  const Value loss = sum_all(nll * reshape(weight, {rows, 1}));
  std::vector<Value> result{loss, reshape(nll, {rows})};
  for (const Value& g : gradients(loss, wrt)) result.push_back(g);
  while (result.size() <= kDb) result.push_back(fill(graph, {0}, 0));  // of operands that are not there
  return result;
}

}  // namespace

const OpDef& linear_xent_def() {
  static const OpDef def{.signature =
                             "linear_xent(x:[N,D], w:weight[V,D], targets:i32[N], weight:[N], u?:[N,R], b?:[V,R]) -> "
                             "loss:[], nll?:[N], dx?:[N,D], dw?:[V,D], du?:[...], db?:[...]",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = cost,
                         .decompose = decompose};
  return def;
}

CrossEntropy linear_xent(Value x, Value w, Value targets, Value weight, LinearXentAttrs attrs, Value u, Value b) {
  const Value first = apply(linear_xent_def(), {x, w, targets, weight, u, b}, attrs);
  return {first, output(first, 1)};
}

}  // namespace toy

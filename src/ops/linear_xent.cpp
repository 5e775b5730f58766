// Output projection and cross-entropy in one pass over chunks of rows. The gradients with respect to x and w are made
// while a chunk's logits are at hand, so backward neither keeps nor recomputes them.
#include <cmath>

#include "ops/defs.h"

namespace toy {
namespace {

enum Out { kLoss, kNll, kDx, kDw, kDz, kDb };

void infer(const TypeQuery& q, std::vector<TensorType>&) {
  const int64_t vocab = q.in[1]->shape[0];
  check(vocab > 0, "linear_xent: w has V={}, expected at least 1", vocab);
  const double softcap = q.attrs.as<LinearXentAttrs>().softcap;
  check((q.in[4] != nullptr) == (q.in[5] != nullptr), "linear_xent: there is only one of z and b");
  check(softcap >= 0 && std::isfinite(softcap), "linear_xent: softcap is {}, expected 0 (none) or more", softcap);
}

void vjp(Vjp& c) {
  check(!c.grad(kNll), "linear_xent: only the loss has a gradient, weight the rows instead of using nll");
  const Value dloss = c.grad(kLoss);
  const auto scaled = [&](Value v) { return is_one(dloss) ? v : v * dloss; };
  if (c.needs(0)) c.give(0, scaled(c.out(kDx)));
  if (c.needs(1)) {
    const Value w = c.in(1);
    check(!is_quantized(w.type().dtype), "linear_xent: the weight '{}' is {}; only float weights can be trained",
          c.graph().node(w).name, name_of(w.type().dtype));
    c.give(1, scaled(c.out(kDw)));
  }
  if (c.in(4) && c.needs(4)) c.give(4, scaled(c.out(kDz)));
  if (c.in(5) && c.needs(5)) c.give(5, scaled(c.out(kDb)));
  check(!c.needs(3), "linear_xent: no gradient with respect to the rows' weights");
}

Cost cost(const CostQuery& q) {
  const double width = double(q.in[0]->shape[1] + (q.in[4] ? q.in[4]->shape[1] : 0));
  const double product = 2.0 * double(q.in[0]->shape[0]) * width * double(q.in[1]->shape[0]);
  return {.flops = 3 * product, .transcendentals = double(q.in[0]->shape[0] * q.in[1]->shape[0])};
}

std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs& attrs) {
  if (is_quantized(in[1].type().dtype)) return {};
  const bool added = in.size() > 4 && in[4];
  std::vector<Value> operands(in.begin(), in.begin() + 2);
  if (added) operands.insert(operands.end(), in.begin() + 4, in.begin() + 6);
  const std::vector<Value> wrt = independent(operands);
  const Value x = wrt[0], w = wrt[1], weight = in[3];
  const int64_t rows = x.dim(0), vocab = w.dim(0);
  const Value sums = added ? linear(x, w) + linear(wrt[2], wrt[3]) : linear(x, w);
  const Value logits = softcapped(sums, attrs.as<LinearXentAttrs>().softcap), hot = one_hot(in[2], vocab);
  const Value lse = log(sum(exp(logits), 1));  // no maximum taken out: a definition, not an algorithm
  const Value nll = sum(hot, 1) * lse - sum(hot * logits, 1);
  const Value loss = sum_all(nll * reshape(weight, {rows, 1}));
  const std::vector<Value> grads = gradients(loss, wrt);
  std::vector<Value> all{loss, reshape(nll, {rows})};
  all.insert(all.end(), grads.begin(), grads.end());
  return all;
}

}  // namespace

const OpDef& linear_xent_def() {
  static const OpDef def{.signature =
                             "linear_xent(x:[N,D], w:weight[V,D], targets:i32[N], weight:[N], z?:[N,R], b?:[V,R]) "
                             "-> loss:[], nll?:[N], dx?:[N,D], dw?:[V,D], dz?:[N,R], db?:[V,R]",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = cost,
                         .decompose = decompose};
  return def;
}

CrossEntropy linear_xent(Value x, Value w, Value targets, Value weight, LinearXentAttrs attrs, Value z, Value b) {
  const Value first = apply(linear_xent_def(), {x, w, targets, weight, z, b}, attrs);
  return {first, output(first, 1)};
}

}  // namespace toy

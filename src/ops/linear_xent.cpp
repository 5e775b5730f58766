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

std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  std::vector<Value> at(in.begin(), in.end()), wrt;
  at.resize(6);
  std::vector<Out> gives;  // the output that is the gradient of each of `wrt`
  constexpr std::pair<size_t, Out> kGradients[] = {{0, kDx}, {1, kDw}, {4, kDz}, {5, kDb}};
  for (const auto& [operand, gradient] : kGradients) {
    Value& v = at[operand];
    if (!v || v.type().dtype != in[0].type().dtype) continue;  // weights in fewer bits have none
    wrt.push_back(v = independent(v));
    gives.push_back(gradient);
  }
  const Value sums = at[4] ? linear(at[0], at[1]) + linear(at[4], at[5]) : linear(at[0], at[1]);
  const Value logits = softcapped(sums, attrs.as<LinearXentAttrs>().softcap), hot = one_hot(in[2], at[1].dim(0));
  const Value nll = sum(hot, 1) * log_sum_exp(logits, 1) - sum(hot * logits, 1);
  const Value weight = reshape(in[3], {-1, 1});
  std::vector<Value> all(6);
  all[kLoss] = sum_all(nll * weight);
  all[kNll] = reshape(nll, {-1});
  const std::vector<Value> found = pull_back({&nll, 1}, {&weight, 1}, wrt);
  for (size_t i = 0; i < found.size(); ++i) all[gives[i]] = found[i];
  if (!at[4]) {  // gradients of nothing
    all[kDz] = slice(at[0], 1, 0, 0);
    all[kDb] = cast(fill(g, {at[1].dim(0), 0}, 0), at[0].type().dtype);
  }
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

#include "toy/train/optimizer.h"

#include <cmath>

namespace toy {

void OptimizerOptions::validate() const {
  const auto below_one = [](std::string_view name, double v) {
    check(v >= 0 && v < 1, "{} is {}, expected 0 to below 1", name, v);
  };
  below_one("beta1", beta1);
  below_one("beta2", beta2);
  below_one("momentum", momentum);
  check(kind == sgd ? !nesterov || momentum > 0 : !nesterov,
        "nesterov needs the optimizer sgd with a momentum above 0");
  check(eps > 0 && std::isfinite(eps), "eps is {}, expected a small positive number", eps);
  check(weight_decay >= 0 && std::isfinite(weight_decay), "weight-decay is {}, expected 0 or more", weight_decay);
  check(clip >= 0 && std::isfinite(clip), "clip is {}, expected 0 (none) or more", clip);
}

std::vector<std::pair<std::string, TensorType>> moment_types(const ModelSpec& spec, const OptimizerOptions& optimizer) {
  std::vector<const char*> kept;
  if (optimizer.kind == OptimizerOptions::adamw) kept = {".m", ".v"};
  if (optimizer.kind == OptimizerOptions::sgd && optimizer.momentum > 0) kept = {".v"};
  std::vector<std::pair<std::string, TensorType>> list;
  for (const TensorSpec& t : tensors_of(spec))
    for (const char* which : kept) list.push_back({t.name + which, {DType::f32, t.shape, 0}});
  return list;
}

Update::Update(Graph& graph, const OptimizerOptions& options, Value gscale)
    : graph_(graph), o_(options), gscale_(gscale) {
  const TensorType scalar{DType::f32, {}, 0};
  lr_ = graph.input("lr", scalar);
  if (o_.kind == OptimizerOptions::adamw) bias1_ = graph.input("bias1", scalar), bias2_ = graph.input("bias2", scalar);
}

std::vector<Value> Update::operator()(const TensorSpec& s, Value weight, Value gradient) const {
  const auto moment = [&](const char* which) { return graph_.param(s.name + which, {DType::f32, s.shape, 0}); };
  const double decay = s.decays() ? o_.weight_decay : 0.0;
  if (o_.kind == OptimizerOptions::sgd) {
    const SgdState state{weight, o_.momentum > 0 ? moment(".v") : Value{}};
    const SgdState next = sgd(state, gradient, lr_, gscale_, {o_.momentum, decay, o_.nesterov});
    return next.v ? std::vector<Value>{next.w, next.v} : std::vector<Value>{next.w};
  }
  const AdamWState next = adamw({weight, moment(".m"), moment(".v")}, gradient, lr_, bias1_, bias2_, gscale_,
                                {o_.beta1, o_.beta2, o_.eps, decay});
  return {next.w, next.m, next.v};
}

void feed_optimizer(Session& session, const OptimizerOptions& o, int64_t updates, double lr) {
  session.set("lr", float(lr));
  if (o.kind != OptimizerOptions::adamw) return;
  session.set("bias1", float(1 - std::pow(o.beta1, double(updates + 1))));
  session.set("bias2", float(1 - std::pow(o.beta2, double(updates + 1))));
}

}  // namespace toy

// An op and a loss of one's own, from outside of the library: a small network with both learns which arm of a spiral a
// point lies on. First it is shown that their gradient is right.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "focal_loss.h"
#include "swish.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/runtime/evaluate.h"
#include "toy/train/optimizer.h"

namespace {

using namespace toy;
using Tensors = std::map<std::string, std::vector<float>>;

constexpr int64_t kPoints = 90, kClasses = 3, kHidden = 24;
const OptimizerOptions kOptimizer{.kind = OptimizerOptions::adamw, .beta2 = 0.99, .weight_decay = 0, .clip = 0};

struct Data {
  std::vector<float> x;         // [kPoints,2]
  std::vector<int32_t> target;  // [kPoints]
};

Data spiral() {
  const Philox noise(1, "spiral");
  Data d;
  for (int64_t i = 0; i < kPoints; ++i) {
    const int64_t arm = i % kClasses;
    const double r = double(i / kClasses + 1) / double(kPoints / kClasses);
    const double angle = 4 * r + 2 * std::numbers::pi * double(arm) / double(kClasses) + 0.1 * noise.normal(size_t(i));
    d.x.push_back(float(r * std::cos(angle)));
    d.x.push_back(float(r * std::sin(angle)));
    d.target.push_back(int32_t(arm));
  }
  return d;
}

// The network, its loss, the gradients and one step of AdamW, as a graph.
struct Net {
  Graph g;
  std::vector<Value> params, gradient, updates;
  Value logits, loss;

  Net() {
    const Value x = g.input("x", f32({kPoints, 2}));
    const Value target = g.input("target", i32({kPoints}), kClasses);
    const Value h = own::swish(linear(x, param("w1", {kHidden, 2}), param("b1", {kHidden})), param("beta", {kHidden}));
    logits = linear(h, param("w2", {kClasses, kHidden}), param("b2", {kClasses}));
    loss = own::focal_loss(logits, target);
    const OptimizerStep step = minimize(loss, params, kOptimizer);
    gradient = step.gradients;
    updates = step.updates;
  }

  Tensors initial() const {
    Tensors t;
    for (const Value& p : params) {
      const std::string& name = g.node(p).name;
      const double spread = p.shape().rank() == 2 ? 1.5 / std::sqrt(double(p.dim(1))) : 0;
      std::vector<float>& v = t[name];
      for (size_t i = 0; i < size_t(p.type().count()); ++i)
        v.push_back(name == "beta" ? 1.0f : float(spread * Philox(2, name).normal(i)));
    }
    return t;
  }

 private:
  Value param(const std::string& name, const Shape& shape) {
    params.push_back(g.param(name, f32(shape)));
    return params.back();
  }
};

// Largest difference between the graph's gradient and central differences, on the reference, which computes in f64.
double gradient_error(const Net& net, const Data& data, Tensors weights) {
  // Steps of 2^-12 change an f32 weight of size 1 exactly; the error of a difference is about step^2 / 6 times the
  // third derivative, 1e-8.
  constexpr double kStep = 0x1p-12;
  const auto device = own::with_swish(make_reference_device());
  const auto value_of = [&](Value v) {
    EvaluateOptions o{.device = device.get()};
    o.feeds = {{"x", data.x}, {"target", data.target}};
    for (const auto& [name, w] : weights) o.feeds[name] = w;
    return evaluate(v, o).values;
  };
  double worst = 0;
  for (size_t p = 0; p < net.params.size(); ++p) {
    const std::vector<double> gradient = value_of(net.gradient[p]);
    std::vector<float>& w = weights.at(net.g.node(net.params[p]).name);
    for (size_t i = 0; i < w.size(); i += 7) {
      const float middle = w[i], above = middle + float(kStep), below = middle - float(kStep);
      w[i] = above;
      const double up = value_of(net.loss)[0];
      w[i] = below;
      const double down = value_of(net.loss)[0];
      w[i] = middle;
      worst = std::max(worst, std::abs((up - down) / (double(above) - double(below)) - gradient[i]));
    }
  }
  return worst;
}

struct Trained {
  std::vector<float> losses;
  double accuracy = 0;
  Plan plan;
};

Trained train(const Net& net, const Data& data, std::unique_ptr<Device> device, int steps) {
  Trained t;
  const std::vector<Value> outputs{net.loss, net.logits};
  const auto plan = std::make_shared<const Plan>(compile(net.g, outputs, net.updates, *device));
  ParamStore store(*device);
  for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);  // the moments are zero
  for (const auto& [name, w] : net.initial()) store.write(name, w);
  Session session(*device, plan, {&store});
  session.set("x", data.x);
  session.set("target", data.target);
  for (int step = 0; step < steps; ++step) {
    feed_optimizer(session, kOptimizer, step, 0.03);
    session.run();
    t.losses.push_back(session.scalar(0));
  }
  const std::vector<float> logits = session.values(1);
  for (int64_t i = 0; i < kPoints; ++i) {
    const auto row = logits.begin() + i * kClasses;
    t.accuracy += double(std::max_element(row, row + kClasses) - row == data.target[size_t(i)]) / double(kPoints);
  }
  t.plan = *plan;
  return t;
}

int run() {
  Graph g;
  const Value x = g.constant(f32({2, 3}), {-2, 0, 2, -1, 0.5, 1});
  print(own::swish(x, g.constant(f32({3}), {1, 1, 10})));

  const Net net;
  const Data data = spiral();
  const double error = gradient_error(net, data, net.initial());
  fmt::print("gradient: differs from central differences by {:.1e} at most\n", error);

  constexpr int kSteps = 200;
  const Trained own_kernel = train(net, data, own::with_swish(make_cpu_device(2)), kSteps);
  const Trained decomposed = train(net, data, make_cpu_device(2), kSteps);
  for (const std::string& note : decomposed.plan.notes) fmt::print("without the kernel: {}\n", note);
  for (int step = 1; step <= kSteps; step = step == 1 ? 50 : step + 50)
    fmt::print("step {}: loss={:.4f}, without the kernel {:.4f}\n", step, own_kernel.losses[size_t(step - 1)],
               decomposed.losses[size_t(step - 1)]);
  fmt::print("{:.0f}% of the points are on the right arm\n", 100 * own_kernel.accuracy);

  // The first losses differ by the rounding of one forward pass: sums of 24 products, a softmax, a mean of 90.
  const bool same = std::abs(own_kernel.losses[0] - decomposed.losses[0]) <= 256 * 0x1p-24 * own_kernel.losses[0];
  const bool uses_kernel = own_kernel.plan.notes.empty() && !decomposed.plan.notes.empty();
  const bool falls = own_kernel.losses.back() < 0.2f * own_kernel.losses.front();
  const bool ok = error < 1e-7 && same && uses_kernel && falls && own_kernel.accuracy > 0.9;
  fmt::print("{}\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "own_op: {}\n", e.what());
    return 1;
  }
}

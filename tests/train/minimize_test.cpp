// minimize(): an optimizer's step for a graph of one's own.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/train/optimizer.h"

namespace toy::minimize_test {
namespace {

using Options = OptimizerOptions;
using testing::expect_contains;
using testing::message_of;

// loss = sum (x w^T + b - y)^2 / 4, which can become 0.
struct Regression {
  Graph g;
  std::vector<Value> params;
  Value loss;

  Regression() {
    const Value x = g.input("x", f32({4, 3})), y = g.input("y", f32({4, 2}));
    params = {g.param("w", f32({2, 3})), g.param("b", f32({2}))};
    const Value miss = linear(x, params[0], params[1]) - y;
    loss = sum_all(miss * miss) / 4;
  }
};

class Fit {
 public:
  Fit(Device& device, Graph& g, Value loss, Value norm, const std::vector<Value>& updates) : store_(device) {
    std::vector<Value> outputs{loss};
    if (norm) outputs.push_back(norm);
    const auto plan = std::make_shared<const Plan>(compile(g, outputs, updates, device));
    for (const PlanLeaf& p : plan->params) store_.add(p.name, p.type);
    store_.write("w", std::vector<float>{0.5f, -0.25f, 1, 0, 0.125f, -1});
    session_ = std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{&store_});
    session_->set("x", std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1});
    session_->set("y", std::vector<float>{1, 2, 3, 4, 5, 6, 9, 11});
  }
  // The loss before each step.
  std::vector<float> run(const Options& o, int steps, double lr) {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      feed_optimizer(*session_, o, i, lr);
      session_->run();
      losses.push_back(session_->scalar(0));
    }
    return losses;
  }
  Session& session() { return *session_; }
  ParamStore& store() { return store_; }

 private:
  ParamStore store_;
  std::unique_ptr<Session> session_;
};

TEST(Minimize, EveryOptimizerFitsALine) {
  const auto device = make_test_device(2);
  for (const auto& [name, kind] : NamesOf<OptimizerOptions::Kind>::list) {
    Regression r;
    Options o = Options::of(kind);
    o.weight_decay = 0, o.adamw_factor = 1;  // muon leaves vectors to AdamW
    const OptimizerStep step = minimize(r.loss, r.params, o);
    EXPECT_EQ(step.gradients.size(), 2u);
    Fit fit(*device, r.g, r.loss, step.norm, step.updates);
    const std::vector<float> losses = fit.run(o, 400, kind == Options::adafactor ? 0.1 : 0.02);
    EXPECT_GT(losses.front(), 40) << name;
    EXPECT_LT(losses.back(), 0.1 * losses.front()) << name;
  }
}

TEST(Minimize, MuonOfAMatrixAlone) {
  const auto device = make_test_device(1);
  Graph g;
  const Value w = g.param("w", f32({8, 4})), loss = sum_all(w * w);
  const Options o = Options::of(Options::muon);
  const OptimizerStep step = minimize(loss, std::vector<Value>{w}, o);
  std::vector<Value> outputs{loss};
  const auto plan = std::make_shared<const Plan>(compile(g, outputs, step.updates, *device));
  ParamStore store(*device);
  for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);
  store.write("w", std::vector<float>(32, 1));
  Session session(*device, plan, {&store});
  feed_optimizer(session, o, 0, 0.02);
  session.run();
  EXPECT_EQ(session.scalar(0), 32);
  EXPECT_LT(store.read("w")[0], 1);
}

// The graph that one would write by hand has the same bits.
TEST(Minimize, IsGradientsNormClippingAndTheOp) {
  const auto device = make_test_device(1);
  const Options o{.beta2 = 0.99, .weight_decay = 0.1, .clip = 0.5};
  Regression a, b;
  const OptimizerStep step = minimize(a.loss, a.params, o);
  Fit one(*device, a.g, a.loss, step.norm, step.updates);

  const std::vector<Value> gradient = gradients(b.loss, b.params);
  const Value norm = global_norm(gradient), gscale = clip_scale(norm, b.g.input("clip", f32()));
  const Value lr = b.g.input("lr", f32()), bias1 = b.g.input("bias1", f32()), bias2 = b.g.input("bias2", f32());
  std::vector<Value> updates;
  for (size_t i = 0; i < 2; ++i) {
    const Value w = b.params[i];
    const std::string name = b.g.node(w).name;
    const AdamWState next = adamw({w, b.g.param(name + ".m", w.type()), b.g.param(name + ".v", w.type())}, gradient[i],
                                  lr, bias1, bias2, gscale, {.beta2 = 0.99, .weight_decay = i == 0 ? 0.1 : 0});
    updates.insert(updates.end(), {next.w, next.m, next.v});
  }
  Fit two(*device, b.g, b.loss, norm, updates);
  EXPECT_EQ(one.run(o, 20, 0.1), two.run(o, 20, 0.1));
  EXPECT_EQ(one.session().scalar(1), two.session().scalar(1));
  for (const char* name : {"w", "b", "w.m", "w.v", "b.m", "b.v"})
    EXPECT_EQ(one.store().read(name), two.store().read(name));
}

TEST(Minimize, AStepWhoseGradientIsNotFiniteChangesNothing) {
  const auto device = make_test_device(1);
  Regression r;
  const Options o;
  const OptimizerStep step = minimize(r.loss, r.params, o);
  Fit fit(*device, r.g, r.loss, step.norm, step.updates);
  const std::vector<float> before = fit.store().read("w");
  std::vector<float> y(8, 0);
  y[3] = std::numeric_limits<float>::infinity();
  fit.session().set("y", y);
  fit.run(o, 1, 0.1);
  EXPECT_FALSE(std::isfinite(fit.session().scalar(1)));
  EXPECT_EQ(fit.store().read("w"), before);
  EXPECT_EQ(fit.store().read("w.m"), std::vector<float>(6, 0));
}

TEST(Minimize, PatternsAreOverTheNamesOfTheParameters) {
  const auto device = make_test_device(1);
  Regression r;
  const Options o{.lr_for = {{"b", 0}}, .ema = 0.5};
  const OptimizerStep step = minimize(r.loss, r.params, o);
  Fit fit(*device, r.g, r.loss, step.norm, step.updates);
  fit.run(o, 3, 0.1);
  EXPECT_EQ(fit.store().read("b"), std::vector<float>(2, 0));
  EXPECT_NE(fit.store().read("w.ema"), std::vector<float>(6, 0));
  Regression other;
  const std::string message = message_of([&] { minimize(other.loss, other.params, {.no_decay = {"v*"}}); });
  expect_contains(message, "'v*'");
  EXPECT_EQ(message.find("toy describe"), std::string::npos) << message;  // it knows nothing of this graph
}

TEST(Minimize, RefusesWhatItCannotUpdate) {
  Regression r, other;
  expect_contains(message_of([&] { minimize(r.loss, {}); }), "no parameters");
  expect_contains(message_of([&] { minimize(r.params[0], r.params); }), "f32[2,3]");
  expect_contains(message_of([&] { minimize(r.loss, other.params); }), "graph");
  expect_contains(message_of([&] { minimize(r.loss, std::vector{*r.g.find("x")}); }), "'x'");
  expect_contains(message_of([&] { minimize(r.loss, r.params, {.clip = -1}); }), "clip is -1");
  expect_contains(message_of([&] { minimize(r.loss, std::vector{r.params[1], r.params[1]}); }), "'b' is given twice");
  const Value half = r.g.param("half", {DType::bf16, {3}, 0});
  expect_contains(message_of([&] { minimize(r.loss, std::vector{half}); }), "bf16[3]");
}

// What is refused leaves the graph as it was.
TEST(Minimize, NeedsItsNames) {
  for (const char* name : {"clip", "lr", "bias1", "ema_mix", "w.m", "b.ema"}) {
    Regression r;
    r.g.input(name, f32());
    const size_t before = r.g.nodes().size();
    const std::string message = message_of([&] { minimize(r.loss, r.params, {.ema = 0.5}); });
    expect_contains(message, "minimize: ");
    expect_contains(message, "'" + std::string(name) + "'");
    EXPECT_EQ(r.g.nodes().size(), before);
  }
  Regression r;
  r.g.input("mix", f32());  // Adafactor's
  minimize(r.loss, r.params);
  const size_t before = r.g.nodes().size();
  expect_contains(message_of([&] { minimize(r.loss, r.params); }), "second minimize()");
  EXPECT_EQ(r.g.nodes().size(), before);
}

}  // namespace
}  // namespace toy::minimize_test

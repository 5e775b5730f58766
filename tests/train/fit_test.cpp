#include "toy/train/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/graph/autodiff.h"
#include "toy/nn/losses.h"
#include "toy/runtime/evaluate.h"

namespace toy::fit_test {
namespace {

using ::toy::testing::error_of;
using ::toy::testing::expect_contains;

constexpr int64_t kPoints = 60, kClasses = 3;

// Points around three centres, by class.
struct Points {
  std::vector<float> x;
  std::vector<int32_t> y;
  Points() {
    for (int i = 0; i < kPoints; ++i) {
      const int c = i % kClasses;
      const double angle = 2.1 * c + 0.5 * std::sin(7.0 * i);
      x.insert(x.end(), {float(std::cos(angle)), float(std::sin(angle)), 1});
      y.push_back(c);
    }
  }
};

struct Net {
  Graph g;
  Value x = g.input("x", {DType::f32, {kPoints, 3}}), y = g.input("y", {DType::i32, {kPoints}}, kClasses);
  Value w = g.param("w", {DType::f32, {kClasses, 3}});
  Value loss = nn::cross_entropy(linear(x, w), y);
};

// loss = log(sum exp(l - l_t)); here by hand for two rows, one of which would overflow.
TEST(Losses, CrossEntropyIsItsFormulaAlsoForLargeLogits) {
  const auto device = make_test_device(1);
  Graph g;
  const Value logits = g.input("logits", {DType::f32, {2, 3}}), t = g.input("t", {DType::i32, {2}}, 3);
  const Value loss = nn::cross_entropy(logits, t);
  const auto plan = std::make_shared<const Plan>(compile(g, std::vector{loss}, {}, *device));
  Session s(*device, plan, {});
  s.set("logits", std::vector<float>{1, 2, 3, 1000, 0, 999});
  s.set("t", std::vector<int32_t>{0, 2});
  s.run();
  const double first = std::log(1 + std::exp(1.0) + std::exp(2.0)), second = std::log(1 + std::exp(1.0));
  EXPECT_NEAR(s.scalar(0), (first + second) / 2, 4e-7 * first);
  expect_contains(error_of([&] {
                    nn::cross_entropy(logits, g.input("u", {DType::i32, {3}}));
                  }),
                  "use [N,C] and i32[N]");
}

// (softmax - one hot) / N.
TEST(Losses, CrossEntropysGradient) {
  const auto device = make_test_device(1);
  Graph g;
  const Value logits = g.param("logits", {DType::f32, {2, 3}}), t = g.input("t", {DType::i32, {2}}, 3);
  const Value d = gradients(nn::cross_entropy(logits, t), std::vector{logits})[0];
  const auto plan = std::make_shared<const Plan>(compile(g, std::vector{d}, {}, *device));
  ParamStore store(*device);
  store.add("logits", logits.type());
  const std::vector<float> l{1, 2, 3, -1, 0.5f, 0};
  store.write("logits", l);
  Session s(*device, plan, {&store});
  const std::vector<int32_t> targets{0, 2};
  s.set("t", targets);
  s.run();
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += std::exp(l[3 * row + c]);
    for (size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(s.values(0)[3 * row + c], (std::exp(l[3 * row + c]) / sum - (size_t(targets[row]) == c)) / 2, 2e-7);
  }
}

TEST(Losses, MeanSquaredError) {
  const auto device = make_test_device(1);
  Graph g;
  const Value a = g.input("a", {DType::f32, {2, 2}}), b = g.input("b", {DType::f32, {2, 2}});
  const auto plan = std::make_shared<const Plan>(compile(g, std::vector{nn::mse(a, b)}, {}, *device));
  Session s(*device, plan, {});
  s.set("a", std::vector<float>{1, 2, 3, 4});
  s.set("b", std::vector<float>{1, 0, 3, 1});
  s.run();
  EXPECT_EQ(s.scalar(0), (4.0f + 9.0f) / 4);
  expect_contains(error_of([&] { nn::mse(a, g.input("c", {DType::f32, {4}})); }), "use the same shape");
}

TEST(FitNet, LearnsClassesAndKeepsThemInAFile) {
  const ::toy::testing::Folder folder;
  const auto device = make_test_device(1);
  const Points points;
  const auto feed = [&](Session& s, int64_t) { s.set("x", points.x), s.set("y", points.y); };
  Net net;
  ParamStore store(*device);
  store.add("w", net.w.type());
  const std::vector<float> losses = fit(*device, store, net.loss, std::vector{net.w}, {.steps = 150, .lr = 0.1}, feed);
  ASSERT_EQ(losses.size(), 150u);
  EXPECT_NEAR(losses.front(), std::log(3.0), 1e-6);  // weights of zero hesitate between all classes
  EXPECT_LT(losses.back(), 0.1);

  // In another process one would begin here.
  ParamStore own(*device), other(*device);
  own.add("w", net.w.type());
  own.write("w", store.read("w"));
  save_params(own, folder.path("net.gguf"));
  other.add("w", net.w.type());
  load_params(other, folder.path("net.gguf"));
  EXPECT_EQ(other.read("w"), store.read("w"));

  ParamStore larger(*device);
  larger.add("w", {DType::f32, {kClasses, 4}});
  expect_contains(error_of([&] { load_params(larger, folder.path("net.gguf")); }), "its tensor 'w' is [3,3]");
  ParamStore more(*device);
  more.add("b", {DType::f32, {3}});
  expect_contains(error_of([&] { load_params(more, folder.path("net.gguf")); }), "no tensor 'b'");
  expect_contains(error_of([&] { load_params(more, folder.path("none.gguf")); }), "no such file");
}

TEST(FitNet, InitialValuesDifferAndFollowTheSeed) {
  const auto device = make_test_device(1);
  Graph g;
  const std::vector params{g.param("w", {DType::f32, {64, 100}}), g.param("b", {DType::f32, {64}})};
  ParamStore store(*device), again(*device), other(*device);
  add_params(store, params, 1), add_params(again, params, 1), add_params(other, params, 2);
  const std::vector<float> w = store.read("w");
  EXPECT_EQ(w, again.read("w"));
  EXPECT_NE(w, other.read("w"));
  EXPECT_EQ(store.read("b"), std::vector<float>(64));
  double squares = 0;
  for (const float v : w) squares += double(v) * v;
  // The mean of n squares of deviation s has the deviation s^2 sqrt(2 / n): six of them.
  EXPECT_NEAR(squares / 6400, 0.01, 6 * 0.01 * std::sqrt(2.0 / 6400));
  expect_contains(error_of([&] { add_params(store, params); }), "the store has 'w' already");
  expect_contains(error_of([&] { add_params(other, std::vector{sum(params[1], 0)}); }), "is no parameter");
}

TEST(FitNet, RefusesWhatCannotTrain) {
  const auto device = make_test_device(1);
  const Points points;
  const auto feed = [&](Session& s, int64_t) { s.set("x", points.x), s.set("y", points.y); };
  const auto refusal = [&](const FitOptions& options, const std::function<void(Session&, int64_t)>& f) {
    Net net;
    ParamStore store(*device);
    add_params(store, std::vector{net.w});
    return error_of([&] { fit(*device, store, net.loss, std::vector{net.w}, options, f); });
  };
  EXPECT_EQ(refusal({.steps = -1}, feed), "fit: steps is -1; use 0 or more");
  EXPECT_EQ(refusal({.lr = -1}, feed), "fit: lr is -1; use a number from 0 on");
  expect_contains(refusal({}, nullptr), "there is no feed");
  expect_contains(
      refusal({.steps = 1},
              [&](Session& s, int64_t) { s.set("x", std::vector<float>(points.x.size(), NAN)), s.set("y", points.y); }),
      "fit: the loss of step 0 is nan");
  const ::toy::testing::Folder folder;
  ParamStore empty(*device);
  expect_contains(error_of([&] { save_params(empty, folder.path("a.gguf")); }), "no tensors to save");
  expect_contains(error_of([&] { load_params(empty, folder.path("a.gguf")); }), "add() those of the net first");
}

TEST(FitNet, WhatIsMissingIsSaid) {
  const auto device = make_test_device(1);
  Net net;
  ParamStore store(*device);
  const std::vector params{net.w};
  const auto nothing = [](Session&, int64_t) {};
  EXPECT_EQ(error_of([&] { fit(*device, store, net.loss, params, {.steps = 1}, nothing); }),
            "fit: the store has no values for 'w'; add() and write() them first");
  Net again;
  store.add("w", again.w.type());
  EXPECT_EQ(error_of([&] { fit(*device, store, again.loss, std::vector{again.w}, {.steps = 1}, nothing); }),
            "session: input 'x' was never set; set() it before run()");
}

}  // namespace
}  // namespace toy::fit_test

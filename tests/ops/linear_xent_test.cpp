// Projection to the vocabulary and cross-entropy in one op.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/harness.h"
#include "toy/ops/ops.h"

namespace toy::test::linear_xent_test {
namespace {

const Attrs kPlain = LinearXentAttrs{};

const OpSuite kXent{
    .op = "linear_xent",
    .cases = {{"x:[1,1] w:[1,1] targets:i32[1]=list(0) weight:[1] z:none b:none", kPlain},
              {"x:[5,3] w:[7,3] targets:i32[5]=targets(7) weight:[5]=range(0,1) z:none b:none", kPlain},
              {"x:[3,5]@(1,0) w:[3,7]@(1,0) targets:i32[5]=below(7) weight:[5]=const(0.2) z:none b:none", kPlain},
              {"x:[4,6] w:[9,6] targets:i32[4]=list(-1,-1,-1,-1) weight:[4]=const(1) z:none b:none", kPlain},
              {"x:[131,33] w:[203,33] targets:i32[131]=targets(203) weight:[131]=const(0.0078125) z:none b:none",
               kPlain},
              {"x:[5,3] w:[7,3] targets:i32[5]=targets(7) weight:[5]=range(0,1) z:none b:none", LinearXentAttrs{0.7}},
              {"x:[131,33] w:[203,33] targets:i32[131]=targets(203) weight:[131]=const(0.0078125) z:none b:none",
               LinearXentAttrs{4}},
              {"x:[5,3] w:[7,3] targets:i32[5]=targets(7) weight:[5]=range(0,1) z:[5,2] b:[7,2]", kPlain},
              {"x:[5,3] w:[7,3] targets:i32[5]=targets(7) weight:[5]=range(0,1) z:[5,2] b:[7,2]", LinearXentAttrs{0.7}},
              {"x:[131,33] w:[203,33] targets:i32[131]=targets(203) weight:[131]=const(0.0078125) z:[131,5] b:[203,5]",
               kPlain}},
    .bad = {{"x:[5,3] w:[7,4] targets:i32[5]=below(7) weight:[5] z:none b:none", "linear_xent: w has D=4, x has D=3",
             kPlain},
            {"x:[5,3] w:[0,3] targets:i32[5]=const(-1) weight:[5] z:none b:none",
             "linear_xent: w has V=0, expected at least 1", kPlain},
            {"x:[5,3] w:[7,3] targets:i32[4]=below(7) weight:[5] z:none b:none",
             "linear_xent: targets has N=4, x has N=5", kPlain},
            {"x:[5,3] w:[7,3] targets:i32[5]=below(7) weight:[5] z:[5,2] b:none",
             "linear_xent: there is only one of z and b", kPlain},
            {"x:[5,3] w:[7,3] targets:i32[5]=below(7) weight:[5] z:[5,2] b:[7,3]", "linear_xent: b has R=3, z has R=2",
             kPlain},
            {"x:[5,3] w:[7,3] targets:[5] weight:[5] z:none b:none", "linear_xent: targets is f32, expected i32",
             kPlain},
            {"x:[5,3] w:[7,3] targets:i32[5]=below(7) weight:[5] z:none b:none",
             "linear_xent: softcap is -1, expected 0 (none) or more", LinearXentAttrs{-1}}},
    .bound = by_sensitivity(),
    .no_gradient = {"weight"},
    .rows = {"x", "targets", "weight", "z"},
    .row_wise = false};
const bool kDone = register_suite(kXent);

TEST(LinearXent, LossIsTheFormula) {
  const Built b = build_op(*find_op("linear_xent"), parse_operands(kXent.cases[1].operands), kPlain);
  const auto &x = b.feed.at("x"), &w = b.feed.at("w"), &target = b.feed.at("targets"), &weight = b.feed.at("weight");
  double loss = 0;
  for (size_t n = 0; n < 5; ++n) {
    if (target[n] < 0) continue;
    double sum = 0, hit = 0;
    for (size_t j = 0; j < 7; ++j) {
      double logit = 0;
      for (size_t d = 0; d < 3; ++d) logit += x[n * 3 + d] * w[j * 3 + d];
      sum += std::exp(logit);
      if (double(j) == target[n]) hit = logit;
    }
    loss += weight[n] * (std::log(sum) - hit);
  }
  EXPECT_NEAR(Program(b, reference_device()).run()[0][0], loss, 64 * unit_roundoff(DType::f64) * 5 * 7);
}

TEST(LinearXent, NoRowsAndNoTargets) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Built b = build_op(
        *find_op("linear_xent"),
        parse_operands("x:[4,6] w:[9,6] targets:i32[4]=list(-1,3,-1,2) weight:[4]=list(1,0,1,0) z:none b:none"), kPlain,
        {"x", "targets", "weight"});
    Program program(b, *device);
    for (const int64_t n : {4, 0}) {
      program.set_rows(n);
      const Results y = program.run();
      EXPECT_EQ(y[0][0], 0) << device->name() << n;
      for (const double v : y[2]) EXPECT_EQ(v, 0) << device->name() << n;
      for (const double v : y[3]) EXPECT_EQ(v, 0) << device->name() << n;
    }
  }
}

TEST(LinearXent, TargetsBeyondTheVocabularyAreNamed) {
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Built b =
        build_op(*find_op("linear_xent"),
                 parse_operands("x:[2,3] w:[7,3] targets:i32[2]=list(0,7) weight:[2] z:none b:none"), kPlain);
    Program program(b, *device);
    try {
      program.run();
      FAIL() << device->name();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(),
                   device == &reference_device() ? "one_hot: row 1 has id 7" : "linear_xent: row 1 has target 7");
    }
  }
}

// What the op means holds where exp(logits) is no number any more: logits 1000 and 0, the target is the second.
TEST(LinearXent, LargeLogits) {
  Built b = build_op(
      *find_op("linear_xent"),
      parse_operands("x:[1,1]=const(1000) w:[2,1]=list(1,0) targets:i32[1]=list(1) weight:[1]=const(1) z:none b:none"),
      kPlain);
  b.outputs.resize(4);
  for (Device* device : {&cpu_device(2), &reference_device()}) {
    const Results y = Program(b, *device).run();
    EXPECT_EQ(y[0][0], 1000) << device->name();
    EXPECT_EQ(y[2][0], 1) << device->name();                                // dx = (1 w_0 - 1 w_1)
    EXPECT_EQ(y[3], (std::vector<double>{1000, -1000})) << device->name();  // dw = (x, -x)
  }
}

// Weights in blocks have no gradient; that of x takes them as they are.
TEST(LinearXent, WeightsInBlocksOnTheReference) {
  Graph g;
  const Value x = g.param("x", f32({2, 32})), w = g.param("w", {DType::q8_0, {3, 32}, 0});
  const Value targets = g.param("targets", i32({2})), weight = g.param("weight", f32({2}));
  const Value all = linear_xent(x, w, targets, weight).loss;
  const std::vector<Value> wanted{all, {&g, all.node, 2}};
  ParamStore store(reference_device());
  const auto plan = std::make_shared<const Plan>(compile(g, wanted, {}, reference_device()));
  for (const PlanLeaf& p : plan->params) store.add(p.name, p.type);
  std::vector<float> of_w(96, 0.0f), of_x(64, 1.0f);
  of_w[32] = 1;  // the second row's first
  store.write("w", of_w), store.write("x", of_x);
  store.write("weight", std::vector<float>{1, 1});
  const std::vector<int32_t> ids{1, 0};
  store.write("targets", View(const_cast<int32_t*>(ids.data()), DType::i32, {2}));
  Session session(reference_device(), plan, {&store});
  session.run();
  const double e = std::exp(1.0), sum = e + 2;
  EXPECT_NEAR(session.output(0).view().as<double>()[0], 2 * std::log(sum) - 1, 1e-14);
  const double* dx = session.output(1).view().as<double>();
  EXPECT_NEAR(dx[0], e / sum - 1, 1e-14);
  EXPECT_NEAR(dx[32], e / sum, 1e-14);
  EXPECT_EQ(dx[1], 0);
}

TEST(LinearXent, GradientOfTheRowsLossesIsRefused) {
  Graph g;
  const Value x = g.param("x", {DType::f32, {2, 3}, 0}), w = g.param("w", {DType::f32, {7, 3}, 0});
  const Value targets = g.input("targets", {DType::i32, {2}, 0}), weight = g.param("weight", {DType::f32, {2}, 0});
  const CrossEntropy y = linear_xent(x, w, targets, weight);
  const std::vector<Value> of_x{x}, of_weight{weight};
  EXPECT_THROW(gradients(sum_all(y.nll), of_x), Error);
  EXPECT_THROW(gradients(y.loss, of_weight), Error);
}

}  // namespace
}  // namespace toy::test::linear_xent_test

// adamw, global_norm, clip_scale.
#include "backend/compare_util.h"

namespace toy::test::optimizer_test {
namespace {

constexpr AdamWAttrs kAdamW{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

// Operands of a step at t = 3; `scale` absent if 0.
Comparison adamw_case(int64_t n, double scale) {
  Comparison c{.cpu = cpu::adamw_kernel(), .reference = reference::adamw_kernel()};
  c.in.push_back(random_tensor({n}, 1));
  c.in.push_back(random_tensor({n}, 2));
  c.in.push_back(random_tensor({n}, 3));
  c.in.push_back(random_tensor({n}, 4, 0, 2));
  for (const double scalar : {0.01, 1 - std::pow(0.9, 3), 1 - std::pow(0.95, 3)})
    c.in.push_back(tensor_of({}, {scalar}));
  if (scale == 0)
    c.in.emplace_back();
  else
    c.in.push_back(tensor_of({}, {scale}));
  c.out = {{DType::f32, {n}}, {DType::f32, {n}}, {DType::f32, {n}}};
  c.attrs = kAdamW;
  c.aliased = true;
  return c;
}

TEST(AdamW, AgreesWithReference) {
  for (const int64_t n : kSizes)
    for (const double scale : {0.0, 0.3}) {
      Comparison c = adamw_case(n, scale);
      c.tolerance = [&](int o, int64_t i, double e) {  // src/backend/cpu/optimizer/adamw.cpp
        const double g = value_at(c.in[1].view, i) * (scale == 0 ? 1 : scale), w = value_at(c.in[0].view, i);
        const double m1 = 0.9 * std::fabs(value_at(c.in[2].view, i)) + 0.1 * std::fabs(g);
        const double v = 0.95 * value_at(c.in[3].view, i) + 0.05 * g * g;
        const double move = 0.01 * m1 / value_at(c.in[5].view, 0) / (std::sqrt(v / value_at(c.in[6].view, 0)) + 1e-8);
        if (o == 0) return kUnit * (3 * (std::fabs(w) + std::fabs(e)) + 14 * move);
        return kUnit * (o == 1 ? 4 * m1 : 6 * v) + kSmallest;
      };
      compare(c);
    }
}

TEST(AdamW, SkipsTheStepWhenTheScaleIsNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const Comparison c = adamw_case(100, bad);
    compare(c);  // exactly equal
    Tensor w(c.in[0], DType::f32), m(c.in[2], DType::f32), v(c.in[3], DType::f32);
    std::vector<View> in = detail::views_of(c.in);
    in[0] = w.view, in[2] = m.view, in[3] = v.view;
    run_kernel(c.cpu, in, {w.view, m.view, v.view}, c.attrs);
    EXPECT_EQ(std::memcmp(w.view.data, c.in[0].view.data, 400), 0);
    EXPECT_EQ(std::memcmp(m.view.data, c.in[2].view.data, 400), 0);
    EXPECT_EQ(std::memcmp(v.view.data, c.in[3].view.data, 400), 0);
  }
}

// Nothing can undo such an update: it must be said.
TEST(AdamW, ReportsAGradientThatIsNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int64_t at : {0, 50, 99}) {
      const Comparison c = adamw_case(100, 0.5);
      for (const bool reference : {false, true}) {
        const DType dtype = reference ? DType::f64 : DType::f32;
        std::vector<Tensor> in;
        for (const Tensor& t : c.in) in.push_back(t.view.data ? Tensor(t, dtype) : Tensor());
        std::vector<View> views = detail::views_of(in);
        const std::vector<View> out{views[0], views[2], views[3]};
        EXPECT_FALSE(run_kernel(reference ? c.reference : c.cpu, views, out, c.attrs)) << reference;
        if (reference)
          views[1].as<double>()[at] = bad;
        else
          views[1].as<float>()[at] = float(bad);
        EXPECT_TRUE(run_kernel(reference ? c.reference : c.cpu, views, out, c.attrs)) << reference << " " << at;
      }
    }
}

// torch.optim.AdamW, float64, lr 0.01, betas (0.9, 0.95), eps 1e-8, weight_decay 0.1, by hand for one step
// from m = v = 0: m/bias1 = g, v/bias2 = g^2, so w = w (1 - lr wd) - lr g / (|g| + eps).
TEST(AdamW, FirstStepMovesByTheLearningRate) {
  Tensor w = tensor_of({2}, {1, -2}, DType::f64), m = tensor_of({2}, {0, 0}, DType::f64),
         v = tensor_of({2}, {0, 0}, DType::f64);
  const Tensor g = tensor_of({2}, {3, -0.5}, DType::f64), lr = tensor_of({}, {0.01}, DType::f64);
  const Tensor bias1 = tensor_of({}, {1 - kAdamW.beta1}, DType::f64);
  const Tensor bias2 = tensor_of({}, {1 - kAdamW.beta2}, DType::f64);
  run_kernel(reference::adamw_kernel(), {w.view, g.view, m.view, v.view, lr.view, bias1.view, bias2.view, View{}},
             {w.view, m.view, v.view}, kAdamW);
  EXPECT_NEAR(value_at(w.view, 0), 1 * (1 - 0.001) - 0.01, 1e-9);
  EXPECT_NEAR(value_at(w.view, 1), -2 * (1 - 0.001) + 0.01, 1e-9);
}

TEST(GlobalNorm, AgreesWithReference) {
  for (const int64_t n : {0, 1, 17, 4096, 4097, 30000}) {
    Comparison c{.cpu = cpu::global_norm_kernel(), .reference = reference::global_norm_kernel()};
    c.in.push_back(random_tensor({n}, 1));
    c.in.push_back(random_tensor({3, 7}, 2));
    c.in.push_back(random_tensor({}, 3));
    c.out = {{DType::f32, {}}};
    c.tolerance = [](int, int64_t, double e) { return 1.001 * kUnit * e; };  // f64 sums, one rounding
    compare(c);
  }
}

TEST(GlobalNorm, HasTheSameBitsOnEveryInstructionSet) {
  const Tensor g = random_tensor({50001}, 1);
  std::vector<float> norms;
  for_each_target([&] {
    Tensor out(DType::f32, {});
    run_kernel(cpu::global_norm_kernel(), {g.view}, {out.view}, {}, 2);
    norms.push_back(*out.view.as<float>());
  });
  for (const float norm : norms) EXPECT_EQ(norm, norms[0]);
}

TEST(ClipScale, AgreesWithReference) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double norm : {0.0, 0.5, 1.0, 3.0, inf, std::nan("")}) {
    Comparison c{.cpu = cpu::clip_scale_kernel(), .reference = reference::clip_scale_kernel()};
    c.in.push_back(tensor_of({}, {norm}));
    c.in.push_back(tensor_of({}, {1}));
    c.out = {{DType::f32, {}}};
    c.tolerance = [](int, int64_t, double e) { return kUnit * e; };
    compare(c);
  }
}

}  // namespace
}  // namespace toy::test::optimizer_test

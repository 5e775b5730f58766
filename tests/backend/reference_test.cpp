// The reference kernels against each other: gradients against finite differences of the forward kernel in
// f64, attention over pages against attention over rows.
#include "backend/compare_util.h"

namespace toy::test {
namespace {

Tensor random_f64(const Shape& shape, uint32_t seed) { return random_tensor(shape, seed, -1, 1, DType::f64); }

// Checks d/d(x_i) of sum_j weight_j y_j(x) for every i. Central differences with h = 1e-5 are off by h^2
// (third derivative) = 1e-10 and 2^-53 / h = 1e-11 times numbers near 1; 1e-7 allows for sums of a few dozen.
void expect_gradient(const View& x, const View& gradient, const std::function<double()>& weighted_output) {
  constexpr double h = 1e-5;
  for (int64_t i = 0; i < x.count(); ++i) {
    double& xi = x.as<double>()[i];
    const double before = xi;
    xi = before + h;
    const double above = weighted_output();
    xi = before - h;
    const double below = weighted_output();
    xi = before;
    EXPECT_NEAR(gradient.as<const double>()[i], (above - below) / (2 * h), 1e-7) << "element " << i;
  }
}

double dot(const View& a, const View& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += a.as<const double>()[i] * b.as<const double>()[i];
  return sum;
}

TEST(Reference, AttentionGradient) {
  const int64_t N = 7, H = 4, K = 2, P = 3;
  const Tensor q = random_f64({N, H, P}, 1), k = random_f64({N, K, P}, 2), v = random_f64({N, K, P}, 3);
  const Tensor d_o = random_f64({N, H, P}, 4);
  // Two sequences, the first in two runs: positions 3 and 9 do not follow one another.
  const Tensor seq = tensor_of({N}, {0, 0, 0, 0, 1, 1, 1}, DType::i32);
  const Tensor pos = tensor_of({N}, {1, 2, 3, 9, 0, 1, 2}, DType::i32);
  for (const int64_t window : {0, 2}) {
    const AttentionAttrs attrs{.scale = 0.7f, .window = window};
    const Tensor o(DType::f64, {N, H, P}), lse(DType::f64, {N, H});
    const Tensor dq(DType::f64, {N, H, P}), dk(DType::f64, {N, K, P}), dv(DType::f64, {N, K, P});
    const auto forward = [&] {
      run_kernel(reference::attention_kernel(), {q.view, k.view, v.view, seq.view, pos.view}, {o.view, lse.view},
                 attrs);
      return dot(o.view, d_o.view);
    };
    forward();
    run_kernel(reference::attention_grad_kernel(),
               {q.view, k.view, v.view, o.view, lse.view, d_o.view, seq.view, pos.view}, {dq.view, dk.view, dv.view},
               attrs);
    expect_gradient(q.view, dq.view, forward);
    expect_gradient(k.view, dk.view, forward);
    expect_gradient(v.view, dv.view, forward);
  }
}

TEST(Reference, PagedAttentionIsAttention) {
  const int64_t N = 150, H = 4, K = 2, P = 3;
  const Tensor q = random_f64({N, H, P}, 1), k = random_f64({N, K, P}, 2), v = random_f64({N, K, P}, 3);
  Tensor seq(DType::i32, {N}), pos(DType::i32, {N});
  for (int64_t i = 0; i < N; ++i) {  // 100 rows of sequence 1, then 50 of sequence 0
    set_value(seq.view, i, i < 100);
    set_value(pos.view, i, double(i < 100 ? i : i - 100));
  }
  const Tensor table = tensor_of({2, 2}, {2, -1, 0, 1}, DType::i32);
  const Tensor kc = random_f64({3, K, P, 64}, 5), vc = random_f64({3, K, 64, P}, 6);
  EXPECT_FALSE(run_kernel(reference::kv_append_kernel(),
                          {kc.view, vc.view, k.view, v.view, seq.view, pos.view, table.view}, {kc.view, vc.view},
                          KvAppendAttrs{}));
  for (const int64_t window : {0, 70}) {
    const AttentionAttrs attrs{.scale = 0.7f, .window = window};
    const Tensor rows(DType::f64, {N, H, P}), paged(DType::f64, {N, H, P});
    run_kernel(reference::attention_kernel(), {q.view, k.view, v.view, seq.view, pos.view}, {rows.view, View{}}, attrs);
    EXPECT_FALSE(run_kernel(reference::attention_paged_kernel(),
                            {q.view, kc.view, vc.view, seq.view, pos.view, table.view}, {paged.view}, attrs));
    for (int64_t i = 0; i < N * H * P; ++i)
      EXPECT_NEAR(value_at(rows.view, i), value_at(paged.view, i), 1e-13) << "element " << i;
  }
}

TEST(Reference, LinearXentGradient) {
  const int64_t N = 5, D = 4, V = 6;
  const Tensor x = random_f64({N, D}, 1), w = random_f64({V, D}, 2);
  const Tensor target = tensor_of({N}, {2, -1, 0, 5, 3}, DType::i32);
  const Tensor weight = tensor_of({N}, {0.5, 1, 0, 2, 0.25}, DType::f64);
  const Tensor loss(DType::f64, {}), nll(DType::f64, {N}), dx(DType::f64, {N, D}), dw(DType::f64, {V, D});
  const auto forward = [&] {
    run_kernel(reference::linear_xent_kernel(), {x.view, w.view, target.view, weight.view, View(), View()},
               {loss.view, nll.view, dx.view, dw.view, View(), View()}, LinearXentAttrs{});
    return value_at(loss.view, 0);
  };
  const double expected = forward();
  EXPECT_NEAR(expected, dot(nll.view, weight.view), 1e-14);
  EXPECT_EQ(value_at(nll.view, 1), 0);  // no target
  const Tensor gx(dx, DType::f64), gw(dw, DType::f64);
  expect_gradient(x.view, gx.view, forward);
  expect_gradient(w.view, gw.view, forward);
}

TEST(Reference, LinearGradients) {
  const int64_t N = 3, I = 4, O = 5;
  const Tensor x = random_f64({N, I}, 1), w = random_f64({O, I}, 2), bias = random_f64({O}, 3),
               acc = random_f64({N, O}, 4);
  const Tensor dy = random_f64({N, O}, 5), y(DType::f64, {N, O}), dx(DType::f64, {N, I}), dw(DType::f64, {O, I});
  const auto forward = [&] {
    run_kernel(reference::linear_kernel(), {x.view, w.view, bias.view, acc.view}, {y.view});
    return dot(y.view, dy.view);
  };
  run_kernel(reference::linear_grad_x_kernel(), {dy.view, w.view, View{}}, {dx.view});
  run_kernel(reference::linear_grad_w_kernel(), {dy.view, x.view, View{}}, {dw.view});
  expect_gradient(x.view, dx.view, forward);
  expect_gradient(w.view, dw.view, forward);
}

TEST(Reference, RmsNormAndSwigluGradients) {
  const Tensor x = random_f64({3, 5}, 1), w = random_f64({5}, 2), dy = random_f64({3, 5}, 3),
               up = random_f64({3, 5}, 4);
  const Tensor y(DType::f64, {3, 5}), dx(DType::f64, {3, 5}), dw(DType::f64, {5}), dup(DType::f64, {3, 5});
  const auto norm = [&] {
    run_kernel(reference::rms_norm_kernel(), {x.view, w.view}, {y.view}, RmsNormAttrs{1e-3f});
    return dot(y.view, dy.view);
  };
  run_kernel(reference::rms_norm_grad_kernel(), {x.view, w.view, dy.view}, {dx.view, dw.view}, RmsNormAttrs{1e-3f});
  expect_gradient(x.view, dx.view, norm);
  expect_gradient(w.view, dw.view, norm);
  const auto gated = [&] {
    run_kernel(reference::swiglu_kernel(), {x.view, up.view}, {y.view});
    return dot(y.view, dy.view);
  };
  run_kernel(reference::swiglu_grad_kernel(), {x.view, up.view, dy.view}, {dx.view, dup.view});
  expect_gradient(x.view, dx.view, gated);
  expect_gradient(up.view, dup.view, gated);
}

// Turning back undoes a turn by an angle.
TEST(Reference, RopeInverse) {
  const Tensor x = random_f64({2, 2, 6}, 1), pos = tensor_of({2}, {1, 0}, DType::i32);
  const Tensor table = tensor_of({2, 2, 2}, {0.6, 0.8, 1, 0, 0.8, -0.6, 0, 1}, DType::f64), y(DType::f64, {2, 2, 6});
  for (const RopePairing pairing : {RopePairing::neighbour, RopePairing::half}) {
    run_kernel(reference::rope_kernel(), {x.view, pos.view, table.view}, {y.view}, RopeAttrs{pairing, false});
    run_kernel(reference::rope_kernel(), {y.view, pos.view, table.view}, {y.view}, RopeAttrs{pairing, true});
    for (int64_t i = 0; i < 24; ++i) EXPECT_NEAR(value_at(x.view, i), value_at(y.view, i), 1e-15);
  }
}

}  // namespace
}  // namespace toy::test

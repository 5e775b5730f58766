// copy, concat, cast, fill, sum, embedding: everything but sum is exact.
#include "backend/compare_util.h"

namespace toy::test::move_test {
namespace {

constexpr DType kMovedTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i32};

TEST(Copy, AnyStrides) {
  for (const DType dtype : kMovedTypes) {
    const auto copied = [&](const Shape& memory, const Shape& shape, std::array<int64_t, kMaxRank> stride) {
      Comparison c{.cpu = cpu::copy_kernel(), .reference = reference::copy_kernel(), .out = {{dtype, shape}}};
      Tensor t = random_tensor(memory, 1, -9, 9, dtype);
      t.view.shape = shape;
      t.view.stride = stride;
      c.in.push_back(std::move(t));
      compare(c);
    };
    for (const int64_t n : kSizes) {
      copied({3, n}, {3, n}, {n, 1});
      copied({n, 3}, {3, n}, {1, 3});               // transposed
      copied({n}, {4, n, 2}, {0, 1, 0});            // broadcast
      copied({2, n, 5}, {n, 2, 3}, {5, 5 * n, 1});  // permuted and sliced
    }
    copied({1}, {}, {});
    copied({0, 3}, {0, 3}, {3, 1});
  }
}

TEST(Concat, EveryAxis) {
  for (const DType dtype : kMovedTypes)
    for (const int64_t n : {1, 17, 1000, 9000}) {
      const auto joined = [&](const std::vector<Shape>& in, const Shape& out, int axis) {
        Comparison c{.cpu = cpu::concat_kernel(), .reference = reference::concat_kernel(), .out = {{dtype, out}}};
        for (uint32_t i = 0; i < in.size(); ++i) c.in.push_back(random_tensor(in[i], i, -9, 9, dtype));
        c.attrs = AxisAttrs{axis};
        compare(c);
      };
      joined({{n}, {2 * n}, {1}}, {3 * n + 1}, 0);
      joined({{n, 3}, {0, 3}, {5, 3}}, {n + 5, 3}, 0);
      joined({{3, n}, {3, 2}}, {3, n + 2}, 1);
      joined({{2, 1, n}, {2, 4, n}}, {2, 5, n}, 1);
    }
}

TEST(Cast, BetweenAll) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {
      0.0,  -0.0, inf, -inf, 65504,      65519.99,      65520,  1e30,     -1e30,    0x1p-24,  0x1p-25,    3e-8,
      6e-5, 1.5,  2.5, -2.5, 2147483647, -2147483648.0, 0x1p31, 16777217, 16842753, 33554433, 1.00390625, 1.01171875};
  for (uint32_t i = 0; i < 3000; ++i) values.push_back(std::ldexp(double(int32_t(i * 2654435761u)), -int(i % 50)));
  for (const DType from : kMovedTypes)
    for (const DType to : kMovedTypes) {
      Comparison c{.cpu = cpu::cast_kernel(), .reference = reference::cast_kernel()};
      const auto n = int64_t(values.size());
      Tensor t(from, {n});
      for (int64_t i = 0; i < n; ++i)
        if (from == DType::i32)
          set_value(t.view, i, std::clamp(values[size_t(i)], -2147483648.0, 2147483647.0));
        else
          set_value(t.view, i, values[size_t(i)]);
      c.in.push_back(std::move(t));
      c.out = {{to, {n}}};
      c.attrs = CastAttrs{to};
      SCOPED_TRACE(fmt::format("{} to {}", name_of(from), name_of(to)));
      compare(c);
    }
}

TEST(Cast, NaN) {
  for (const DType from : {DType::f32, DType::f16, DType::bf16})
    for (const DType to : kMovedTypes) {
      Comparison c{.cpu = cpu::cast_kernel(), .reference = reference::cast_kernel(), .out = {{to, {33}}}};
      c.in.push_back(tensor_of({33}, std::vector<double>(33, std::nan("")), from));
      c.attrs = CastAttrs{to};
      compare(c);
    }
}

TEST(Fill, EverySize) {
  for (const DType dtype : {DType::f32, DType::i32})
    for (const int64_t n : kSizes) {
      Comparison c{.cpu = cpu::fill_kernel(), .reference = reference::fill_kernel(), .out = {{dtype, {n, 3}}}};
      c.attrs = FillAttrs{{-1, 3}, -7};
      compare(c);
    }
}

TEST(Sum, EveryAxis) {
  for (const int64_t n : kSizes)
    for (const Shape& shape : {Shape{n}, Shape{3, n}, Shape{n, 3}, Shape{2, n, 130}, Shape{n, 1}, Shape{2, 0, 3}})
      for (int axis = 0; axis < shape.rank(); ++axis) {
        Comparison c{.cpu = cpu::sum_kernel(), .reference = reference::sum_kernel()};
        Shape out = shape;
        out[axis] = 1;
        c.in.push_back(random_tensor(shape, 1));
        c.out = {{DType::f32, out}};
        c.attrs = AxisAttrs{axis};
        // One rounding, after f64 sums of terms of at most 2.
        c.tolerance = [&](int, int64_t, double e) {
          const double terms = double(shape[axis]);
          return kUnit * std::fabs(e) + 2 * terms * terms * 0x1p-53;
        };
        compare(c);
      }
}

TEST(Embedding, EveryTable) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const int64_t D : kSizes) {
      Comparison c{.cpu = cpu::embedding_kernel(), .reference = reference::embedding_kernel()};
      c.in.push_back(random_tensor({11, D}, 1, -2, 2, dtype));
      c.in.push_back(random_tensor({23}, 2, 0, 11, DType::i32));
      c.out = {{DType::f32, {23, D}}};
      compare(c);
    }
}

TEST(Embedding, ReportsUnknownIds) {
  for (const double bad : {-1.0, 4.0}) {
    Comparison c{.cpu = cpu::embedding_kernel(), .reference = reference::embedding_kernel()};
    c.in.push_back(random_tensor({4, 9}, 1));
    c.in.push_back(tensor_of({3}, {0, 1, bad}, DType::i32));
    c.out = {{DType::f32, {3, 9}}};
    compare(c);  // a row of zeros on both
    Tensor out(DType::f32, {3, 9});
    const auto report = run_kernel(c.cpu, {c.in[0].view, c.in[1].view}, {out.view});
    EXPECT_EQ(report, fmt::format("embedding: row 2 has id {}", bad));
  }
}

TEST(Embedding, Gradient) {
  for (const int64_t D : kSizes)
    for (const int64_t N : {1, 40}) {
      Comparison c{.cpu = cpu::embedding_grad_kernel(), .reference = reference::embedding_grad_kernel()};
      c.in.push_back(random_tensor({N, D}, 1));
      c.in.push_back(random_tensor({N}, 2, 0, 5, DType::i32));
      c.in.push_back(random_tensor({5, D}, 3));
      c.out = {{DType::f32, {5, D}}};
      c.aliased = true;
      // Up to N additions in a row, of partial sums of at most 2 (N + 1).
      c.tolerance = [&](int, int64_t, double) { return kUnit * double(N) * 2 * double(N + 1); };
      compare(c);
    }
}

}  // namespace
}  // namespace toy::test::move_test

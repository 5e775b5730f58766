// Causal convolutions on every instruction set.
#include "backend/compare_util.h"

namespace toy::test::causal_conv_test {
namespace {

struct Sizes {
  int64_t rows, channels, width;
  bool tail;
};

// Filters of both kernels, whole vectors and not, runs within a chunk of 64 rows and across.
const Sizes kConvolutions[] = {{1, 1, 1, false},   {3, 16, 4, true},   {9, 37, 4, true},    {200, 80, 4, false},
                               {70, 33, 8, true},  {70, 33, 9, true},  {130, 64, 64, true}, {150, 20, 130, false},
                               {5, 70, 100, true}, {90, 130, 31, true}};

// Two runs: of sequence 1 from position 3 on, of sequence 0 from its beginning.
std::vector<Tensor> operands(const Sizes& z, bool gradient) {
  std::vector<double> seq, pos;
  const int64_t first = z.rows - z.rows / 3;
  for (int64_t n = 0; n < z.rows; ++n) {
    seq.push_back(n < first ? 1 : 0);
    pos.push_back(double(n < first ? n + 3 : n - first));
  }
  std::vector<Tensor> in;
  in.push_back(random_tensor({z.rows, z.channels}, 1));
  in.push_back(random_tensor({z.channels, z.width}, 2));
  in.push_back(random_tensor(gradient ? Shape{z.rows, z.channels} : Shape{z.channels}, 3));
  in.push_back(z.tail ? random_tensor({2, z.width - 1, z.channels}, 4) : Tensor());
  in.push_back(tensor_of({z.rows}, seq, DType::i32));
  in.push_back(tensor_of({z.rows}, pos, DType::i32));
  return in;
}

// Numbers are below 2 in magnitude, so the products of a sum of `terms` are within 4 times that.
double bound(double terms, double roundings) { return 4 * terms * roundings * kUnit + kSmallest; }

TEST(CausalConv, AgreesWithReference) {
  for (const Sizes& z : kConvolutions) {
    Comparison c{.cpu = cpu::causal_conv_kernel(), .reference = reference::causal_conv_kernel()};
    c.in = operands(z, false);
    c.out = {{DType::f32, {z.rows, z.channels}}};
    c.tolerance = [=](int, int64_t, double) { return bound(double(z.width) + 1, double(z.width) + 1); };
    compare(c);
  }
}

TEST(CausalConv, GradientsAgreeWithReference) {
  for (const Sizes& z : kConvolutions) {
    Comparison c{.cpu = cpu::causal_conv_grad_kernel(), .reference = reference::causal_conv_grad_kernel()};
    c.in = operands(z, true);
    c.out = {{DType::f32, {z.rows, z.channels}}, {DType::f32, {z.channels, z.width}}, {DType::f32, {z.channels}}};
    c.tolerance = [=](int o, int64_t, double) {
      const double rows = double(z.rows);
      return o == 0 ? bound(double(z.width), double(z.width) + 1) : bound(rows, rows / 64 + 66);
    };
    compare(c);
  }
}

}  // namespace
}  // namespace toy::test::causal_conv_test

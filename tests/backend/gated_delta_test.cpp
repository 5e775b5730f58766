// The gated delta rule on every instruction set.
#include "backend/compare_util.h"

namespace toy::test::gated_delta_test {
namespace {

// Rows of random numbers of length 1 / divisor.
Tensor unit_rows(const Shape& shape, uint32_t seed, double divisor) {
  Tensor t = random_tensor(shape, seed);
  const int64_t width = shape.back();
  for (int64_t at = 0; at < shape.count(); at += width) {
    double sum = 0;
    for (int64_t i = at; i < at + width; ++i) sum += value_at(t.view, i) * value_at(t.view, i);
    for (int64_t i = at; i < at + width; ++i) set_value(t.view, i, value_at(t.view, i) / (divisor * std::sqrt(sum)));
  }
  return t;
}

struct Sizes {
  int64_t rows, keys, width, heads, values, states;
  bool vector_gate;
  double weakest, strongest;  // gates
};

// Two runs: of sequence 1 from position 3 on, of sequence 0 from its beginning.
std::vector<Tensor> operands(const Sizes& z) {
  std::vector<double> seq, pos;
  const int64_t first = z.rows - z.rows / 3;
  for (int64_t n = 0; n < z.rows; ++n) {
    seq.push_back(n < first ? 1 : 0);
    pos.push_back(double(n < first ? n + 3 : n - first));
  }
  std::vector<Tensor> in;
  in.push_back(unit_rows({z.rows, z.keys, z.width}, 1, std::sqrt(double(z.width))));
  in.push_back(unit_rows({z.rows, z.keys, z.width}, 2, 1));
  in.push_back(random_tensor({z.rows, z.heads, z.values}, 3));
  const Shape gates = z.vector_gate ? Shape{z.rows, z.heads, z.width} : Shape{z.rows, z.heads};
  in.push_back(random_tensor(gates, 4, z.strongest, z.weakest));
  in.push_back(random_tensor({z.rows, z.heads}, 5, 0, 1));
  in.push_back(z.states ? random_tensor({z.states, z.heads, z.width, z.values}, 6) : Tensor());
  in.push_back(tensor_of({z.rows}, seq, DType::i32));
  in.push_back(tensor_of({z.rows}, pos, DType::i32));
  return in;
}

const std::vector<Sizes>& sizes() {
  static const std::vector<Sizes> all = {{1, 1, 1, 1, 1, 2, false, 0, -1},      {5, 2, 9, 4, 33, 3, false, 0, -1},
                                         {5, 2, 9, 4, 33, 3, true, 0, -1},      {40, 1, 16, 2, 64, 2, false, 0, -0.1},
                                         {40, 1, 20, 2, 80, 2, true, 0, -20},   {70, 3, 64, 3, 130, 2, false, 0, -5},
                                         {47, 1, 130, 1, 16, 2, true, 0, -0.2}, {500, 1, 8, 1, 12, 2, false, 0, -1}};
  return all;
}

// Errors relative to the largest element of the output: chains of P and V terms (gated_delta_rule.cpp).
void compare_relative(Comparison& c, const Sizes& z) {
  const Comparison& fixed = c;
  std::vector<Tensor> in = detail::copies(fixed.in, true), out = detail::outputs(fixed, true);
  run_kernel(fixed.reference, detail::views_of(in), detail::views_of(out), fixed.attrs);
  std::vector<double> largest;
  for (const Tensor& t : out) {
    largest.push_back(0);
    for (int64_t i = 0; t.view.data && i < t.view.count(); ++i)
      largest.back() = std::max(largest.back(), std::fabs(value_at(t.view, i)));
  }
  const double chain = double(std::max(z.width, z.values)) + 16;
  c.tolerance = [=](int o, int64_t, double) { return chain * kUnit * largest[size_t(o)] + kSmallest; };
  compare(c);
}

TEST(GatedDeltaRule, AgreesWithReference) {
  for (const Sizes& z : sizes())
    for (const auto& [states, delta] : {std::pair(true, true), {false, true}, {true, false}}) {
      Comparison c{.cpu = cpu::gated_delta_rule_kernel(), .reference = reference::gated_delta_rule_kernel()};
      Sizes own = z;
      if (!states) own.states = 0;
      c.in = operands(own);
      c.out = {{DType::f32, {z.rows, z.heads, z.values}}, {DType::f32, {z.states, z.heads, z.width, z.values}}};
      c.unused = {false, !states};
      c.attrs = DeltaRuleAttrs{HeadMap::tile, delta};
      compare_relative(c, z);
    }
}

TEST(GatedDeltaRule, GradientsAgreeWithReference) {
  for (const Sizes& z : sizes())
    for (const bool delta : {true, false}) {
      Comparison c{.cpu = cpu::gated_delta_rule_grad_kernel(), .reference = reference::gated_delta_rule_grad_kernel()};
      c.in = operands(z);
      std::vector<Tensor> more;
      more.push_back(random_tensor({z.rows, z.heads, z.values}, 7));
      more.push_back(random_tensor({z.states, z.heads, z.width, z.values}, 8));
      c.in.insert(c.in.begin() + 6, std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
      for (const int i : {0, 1, 2, 3, 4, 5}) c.out.emplace_back(DType::f32, c.in[size_t(i)].view.shape);
      c.attrs = DeltaRuleAttrs{HeadMap::interleave, delta};
      compare_relative(c, z);
    }
}

}  // namespace
}  // namespace toy::test::gated_delta_test

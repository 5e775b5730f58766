// Rotation by a Hadamard matrix (QuaRot, Ashkboos et al. 2024): the elements of a head become sums of all of them with
// different signs, so an outlier in one of them no longer sets the scale of its neighbours when they are quantized.
#include <cmath>

#include "ops/defs.h"

namespace toy {
namespace {

int64_t block_of(const Value& x) { return x.dim(2) & -x.dim(2); }

// H_2n = (H_n H_n; H_n -H_n): halves of blocks, then halves of these, become their sum and their difference.
std::vector<Value> decompose(Graph&, std::span<const Value> in, const Attrs&) {
  const Value x = in[0];
  const int64_t all = x.dim(1) * x.dim(2), block = block_of(x);
  Value y = x;
  for (int64_t half = block / 2; half > 0; half /= 2) {
    const Value pairs = reshape(y, {-1, all / (2 * half), 2, half});
    const Value a = slice(pairs, 2, 0, 1), b = slice(pairs, 2, 1, 1);
    y = concat(std::vector{a + b, a - b}, 2);
  }
  return {reshape(scale(y, 1 / std::sqrt(double(block))), {-1, x.dim(1), x.dim(2)})};
}

}  // namespace

const OpDef& hadamard_def() {
  static const OpDef def{.signature = "hadamard(x:[N,H,P]) -> y:[N,H,P]",
                         .vjp = [](Vjp& c) { c.give(0, hadamard(c.grad(0))); },
                         .cost =
                             [](const CostQuery& q) {
                               const int64_t width = q.in[0]->shape[2];
                               const double stages = std::log2(double(std::max<int64_t>(1, width & -width)));
                               return Cost{.flops = (stages + 1) * double(q.in[0]->count())};
                             },
                         .decompose = decompose};
  return def;
}

Value hadamard(Value x) { return apply(hadamard_def(), {x}); }

}  // namespace toy

// Products on quantized weights with f32 rows: some outputs at a time, weights become f32 and are multiplied as such.
#include <algorithm>

#include "backend/cpu/gemm.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/quant.h"
#include "toy/tensor/quantize.h"

namespace toy::cpu {
namespace {

constexpr size_t kOutputs = 32;

// Of one thread: weights as f32, their outputs, the workspace of their product.
struct ExactSpace {
  size_t weights, outputs, product;
  ExactSpace(size_t rows, size_t k)
      : weights(round_up(kOutputs * k * sizeof(float), 64)),
        outputs(round_up(rows * kOutputs * sizeof(float), 64)),
        product(dot_workspace(rows, kOutputs, k, 1)) {}
  size_t bytes() const { return weights + outputs + product; }
};

}  // namespace

size_t exact_workspace(size_t rows, size_t k, int threads) { return ExactSpace(rows, k).bytes() * size_t(threads); }

void exact_product(const QuantProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.rows == 0) return;
  const ExactSpace space(p.rows, p.k);
  std::byte* mine = workspace + size_t(team.thread) * space.bytes();
  auto* weights = reinterpret_cast<float*>(mine);
  auto* outputs = reinterpret_cast<float*>(mine + space.weights);
  const TeamMember alone{};
  const size_t row_bytes = bytes_of(p.w_type, int64_t(p.k));
  Pieces claimed(int64_t(ceil_div(p.outs, kOutputs)), 1, team);
  for (Range piece = claimed.next(); piece.size() > 0; piece = claimed.next())
    for (int64_t s = piece.begin; s < piece.end; ++s) {
      const size_t first = size_t(s) * kOutputs, n = std::min(kOutputs, p.outs - first);
      dequantize(p.w_type, p.w + first * row_bytes, {weights, n * p.k});
      dot_product({.x = p.x, .w = weights, .rows = p.rows, .outs = n, .k = p.k, .y = outputs}, alone,
                  mine + space.weights + space.outputs);
      for (size_t r = 0; r < p.rows; ++r) finish_sums(p, outputs + r * n, r, first, first + n);
    }
}

}  // namespace toy::cpu

// linear: y = x w^T + bias + acc on block-quantized weights, which stay as they lie in the file.
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/pieces.h"
#include "backend/cpu/quant.h"
#include "toy/tensor/quantize.h"

namespace toy::cpu {
namespace {

enum : int { kX, kW, kBias, kAcc };

bool accepts(const KernelQuery& q) noexcept {
  for (int i : {kX, kBias, kAcc})
    if (q.in[i].present && q.in[i].dtype != DType::f32) return false;
  return q.out[0].dtype == DType::f32 && is_quantized(q.in[kW].dtype);
}

QuantProduct product_of(const KernelArgs& args) {
  const View& w = args.in[kW];
  return {.x = args.in[kX].as<float>(),
          .w = w.as<std::byte>(),
          .w_type = w.dtype,
          .rows = rows_of(args.in[kX].shape),
          .outs = size_t(w.shape[0]),
          .k = size_t(w.shape[1]),
          .bias = args.in[kBias].as<float>(),
          .acc = args.in[kAcc].as<float>(),
          .y = args.out[0].as<float>()};
}

// ---- rows of x in 8 bits

bool accepts_rounded(const KernelQuery& q) noexcept { return q.products == DType::q8_0 && accepts(q); }

size_t workspace_rounded(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return quant_workspace(rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), q.threads);
}

void run_rounded(const ExecContext& ctx, const KernelArgs& args) noexcept {
  quant_product(product_of(args), ctx, args.workspace);
}

// ---- exactly: some outputs at a time, weights become f32 and are multiplied as such (gemm.h)

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

size_t workspace_exact(const KernelQuery& q) noexcept {
  return ExactSpace(rows_of(q.in[kX].shape), size_t(q.in[kW].shape[1])).bytes() * size_t(q.threads);
}

void run_exact(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const QuantProduct p = product_of(args);
  if (p.rows == 0) return;
  const ExactSpace space(p.rows, p.k);
  std::byte* mine = args.workspace + size_t(ctx.thread) * space.bytes();
  auto* weights = reinterpret_cast<float*>(mine);
  auto* outputs = reinterpret_cast<float*>(mine + space.weights);
  const TeamMember alone{};
  const size_t row_bytes = bytes_of(p.w_type, int64_t(p.k));
  Pieces claimed(int64_t(ceil_div(p.outs, kOutputs)), 1, ctx);
  for (Range piece = claimed.next(); piece.size() > 0; piece = claimed.next())
    for (int64_t s = piece.begin; s < piece.end; ++s) {
      const size_t first = size_t(s) * kOutputs, n = std::min(kOutputs, p.outs - first);
      dequantize(p.w_type, p.w + first * row_bytes, {weights, n * p.k});
      dot_product({.x = p.x, .w = weights, .rows = p.rows, .outs = n, .k = p.k, .y = outputs}, alone,
                  mine + space.weights + space.outputs);
      for (size_t r = 0; r < p.rows; ++r)
        for (size_t o = 0; o < n; ++o) {
          float v = outputs[r * n + o];
          if (p.bias) v += p.bias[first + o];
          if (p.acc) v += p.acc[r * p.outs + first + o];
          p.y[r * p.outs + first + o] = v;
        }
    }
}

}  // namespace

KernelRecord linear_quantized_kernel() {
  return {.op = "linear",
          .in_place = {{0, kAcc}},
          .accepts = accepts_rounded,
          .workspace = workspace_rounded,
          .run = run_rounded};
}

KernelRecord linear_exact_kernel() {
  return {.op = "linear", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace_exact, .run = run_exact};
}

}  // namespace toy::cpu

// low_rank: y = acc + s f (x a^T) b^T of the rows whose factor f is not 0. The others are left as they are, so a and b
// are read only where a row uses them. Rows are taken in blocks; those of a block that do not follow each other are
// copied together. A sum has the order of dot_product (gemm.h), so a row has the bits of three ops: linear, mul,
// linear.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

enum : int { kX, kA, kB, kAcc, kFactor };
constexpr size_t kBlock = 128;  // rows

bool accepts(const KernelQuery& q) noexcept {
  for (int i : {kX, kAcc, kFactor})
    if (q.in[i].dtype != DType::f32) return false;
  return q.out[0].dtype == DType::f32 && is_weight_type(q.in[kA].dtype) && is_weight_type(q.in[kB].dtype);
}

// Up to kBlock rows with a factor, in order.
struct Block {
  std::array<uint32_t, kBlock> rows;
  size_t count = 0;
  // The next ones of `factors` from row `at` on, which moves behind them.
  Block(const float* factors, size_t n, size_t& at) {
    for (; at < n && count < kBlock; ++at)
      if (factors[at] != 0) rows[count++] = uint32_t(at);
  }
  bool in_one_piece() const { return rows[count - 1] - rows[0] + 1 == count; }
};

// What the threads share: copies of a block's rows, x a^T, and a product's memory.
struct Space {
  size_t y, low, product, bytes;
  Space(size_t rows, size_t ins, size_t outs, size_t rank, int threads) {
    const size_t block = std::min(rows, kBlock);
    const auto floats = [](size_t n) { return round_up(n * sizeof(float), 64); };
    y = floats(block * ins), low = y + floats(block * outs), product = low + floats(block * rank);
    bytes = product + std::max(dot_workspace(block, rank, ins, threads), dot_workspace(block, outs, rank, threads));
  }
};

size_t workspace(const KernelQuery& q) noexcept {
  const Shape &x = q.in[kX].shape, &b = q.in[kB].shape;
  return Space(size_t(x[0]), size_t(x[1]), size_t(b[0]), size_t(b[1]), q.threads).bytes;
}

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &a = args.in[kA], &b = args.in[kB];
  const size_t n = size_t(args.in[kX].shape[0]), ins = size_t(a.shape[1]), rank = size_t(a.shape[0]),
               outs = size_t(b.shape[0]);
  const float *x = args.in[kX].as<float>(), *factors = args.in[kFactor].as<float>();
  const auto scale = float(args.attrs.as<ScaleAttrs>().factor);
  float* y = args.out[0].as<float>();
  if (const float* acc = args.in[kAcc].as<float>(); acc != y) {
    const Range mine = ctx.share(int64_t(n));
    std::copy(acc + size_t(mine.begin) * outs, acc + size_t(mine.end) * outs, y + size_t(mine.begin) * outs);
    ctx.barrier();
  }
  const Space space(n, ins, outs, rank, ctx.threads);
  auto* low = reinterpret_cast<float*>(args.workspace + space.low);
  std::byte* product = args.workspace + space.product;
  for (size_t at = 0; at < n;) {
    const Block block(factors, n, at);
    if (block.count == 0) break;
    const Range mine = ctx.share(int64_t(block.count));
    const auto for_each_row = [&](const auto& f) {
      for (auto i = size_t(mine.begin); i < size_t(mine.end); ++i) f(i, size_t(block.rows[i]));
    };
    const bool copied = !block.in_one_piece();
    auto* x_rows = copied ? reinterpret_cast<float*>(args.workspace) : nullptr;
    float* y_rows = copied ? reinterpret_cast<float*>(args.workspace + space.y) : y + block.rows[0] * outs;
    if (copied) {
      for_each_row([&](size_t i, size_t row) {
        std::memcpy(x_rows + i * ins, x + row * ins, ins * sizeof(float));
        std::memcpy(y_rows + i * outs, y + row * outs, outs * sizeof(float));
      });
      ctx.barrier();
    }
    dot_product({.x = copied ? x_rows : x + block.rows[0] * ins,
                 .w = a.data,
                 .w_type = a.dtype,
                 .rows = block.count,
                 .outs = rank,
                 .k = ins,
                 .y = low},
                ctx, product);
    ctx.barrier();
    for_each_row([&](size_t i, size_t row) {
      const float factor = scale * factors[row];
      for (size_t r = 0; r < rank; ++r) low[i * rank + r] *= factor;
    });
    ctx.barrier();
    dot_product({.x = low,
                 .w = b.data,
                 .w_type = b.dtype,
                 .rows = block.count,
                 .outs = outs,
                 .k = rank,
                 .acc = y_rows,
                 .y = y_rows},
                ctx, product);
    if (copied) {
      ctx.barrier();
      for_each_row([&](size_t i, size_t row) { std::memcpy(y + row * outs, y_rows + i * outs, outs * sizeof(float)); });
    }
    if (at < n) ctx.barrier();  // the next block uses the same memory
  }
}

}  // namespace

KernelRecord low_rank_kernel() {
  return {.op = "low_rank", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace, .code = run};
}

}  // namespace toy::cpu

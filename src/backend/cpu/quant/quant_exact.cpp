// Products on quantized weights with f32 rows. Weights become f32 where a thread packs them for its own use; or, where
// that would be done too often, panel by panel in memory that the team shares.
#include <algorithm>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/quant/quant.h"
#include "toy/tensor/quantize.h"

namespace toy::cpu {
namespace {

constexpr size_t kPanel = size_t(1) << 19;  // values: 2 MiB

// Outputs of a panel: panels are about equal.
size_t panel_outputs(size_t outs, size_t k) {
  const size_t most = std::max<size_t>(32, kPanel / std::max<size_t>(1, k));
  return std::min(outs, round_up(ceil_div(outs, std::max<size_t>(1, ceil_div(outs, most))), 8));
}
size_t panel_bytes(size_t rows, size_t k) { return round_up(rows * k * sizeof(float), 64); }

// Rows [first, first + count) of w, this thread its share.
void dequantize_rows(DType type, const std::byte* w, size_t k, size_t first, size_t count, const TeamMember& team,
                     float* to) {
  const Range mine = team.share(int64_t(count));
  dequantize(type, w + (first + size_t(mine.begin)) * bytes_of(type, int64_t(k)),
             {to + size_t(mine.begin) * k, size_t(mine.size()) * k});
}

size_t panel_workspace(size_t rows, size_t outs, size_t k, int threads) {
  const size_t panel = panel_outputs(outs, k);
  return panel_bytes(panel, k) + dot_workspace(rows, panel, k, threads);
}

}  // namespace

size_t exact_workspace(size_t rows, size_t outs, size_t k, int threads) {
  // Rows vary up to `rows`, and with them the way.
  return std::max(panel_workspace(rows, outs, k, threads), dot_workspace(rows, outs, k, threads, DType::q8_0));
}

void exact_product(const QuantProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.rows == 0) return;
  if (dot_takes_blocks(p.rows, p.k))
    return dot_product({.x = p.x,
                        .w = p.w,
                        .w_type = p.w_type,
                        .rows = p.rows,
                        .outs = p.outs,
                        .k = p.k,
                        .bias = p.bias,
                        .acc = p.acc,
                        .y = p.y},
                       team, workspace);
  const size_t panel = panel_outputs(p.outs, p.k);
  auto* weights = reinterpret_cast<float*>(workspace);
  for (size_t first = 0; first < p.outs; first += panel) {
    const size_t n = std::min(panel, p.outs - first);
    if (first > 0) team.barrier();  // the last panel is still read
    dequantize_rows(p.w_type, p.w, p.k, first, n, team, weights);
    team.barrier();
    dot_product({.x = p.x,
                 .w = weights,
                 .rows = p.rows,
                 .outs = n,
                 .k = p.k,
                 .stride = p.outs,
                 .bias = p.bias ? p.bias + first : nullptr,
                 .acc = p.acc ? p.acc + first : nullptr,
                 .y = p.y + first},
                team, workspace + panel_bytes(panel, p.k));
  }
}

size_t exact_grad_x_workspace(size_t rows, size_t outs, size_t ins, int threads) {
  const size_t panel = outer_blocks(outs).len;
  return std::max(panel_bytes(panel, ins) + outer_workspace(rows, ins, panel, threads),
                  outer_workspace(rows, ins, outs, threads));
}

void exact_grad_x(const QuantGradX& p, const TeamMember& team, std::byte* workspace) {
  if (p.rows == 0) return;
  if (outer_takes_blocks(p.w_type))
    return outer_product({.a = {p.dy, p.outs, 1},
                          .b = {p.w, p.ins, 1},
                          .b_type = p.w_type,
                          .m = p.rows,
                          .n = p.ins,
                          .k = p.outs,
                          .init = p.init,
                          .c = p.dx},
                         team, workspace);
  const KBlocks blocks = outer_blocks(p.outs);
  auto* weights = reinterpret_cast<float*>(workspace);
  for (size_t b = 0; b < blocks.count; ++b) {
    const size_t first = b * blocks.len, n = blocks.size(b);
    if (b > 0) team.barrier();
    dequantize_rows(p.w_type, p.w, p.ins, first, n, team, weights);
    team.barrier();
    outer_product({.a = {p.dy + first, p.outs, 1},
                   .b = {weights, p.ins, 1},
                   .m = p.rows,
                   .n = p.ins,
                   .k = n,
                   .init = b == 0 ? p.init : p.dx,
                   .c = p.dx},
                  team, workspace + panel_bytes(blocks.len, p.ins));
  }
}

}  // namespace toy::cpu

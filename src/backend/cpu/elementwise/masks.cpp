// Tensors made from indices, exactly: one_hot and the mask of attention. Only decompositions use them.
#include <algorithm>
#include <limits>

#include "backend/cpu/attention/sequence_rows.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

// y_nj = [j == id_n]; a negative id means "none" and gives zeros.
void one_hot(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto* id = args.in[0].as<const int32_t>();
  const int64_t classes = args.attrs.as<OneHotAttrs>().classes;
  const Range rows = share_rows(ctx, args.in[0].shape.count(), classes);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    float* y = args.out[0].as<float>() + n * classes;
    std::fill_n(y, classes, 0.0f);
    if (id[n] >= classes) ctx.report(KernelFault::id, n, id[n]);
    if (id[n] >= 0 && id[n] < classes) y[id[n]] = 1;
  }
}

// 0 where row i may see row j, -inf elsewhere: the rows behind it in its run (one sequence, positions that
// grow by one) and itself, as far back as the window reaches (0: all of them), and those after it before until_i.
void attention_mask(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const SequenceRows rows(args.in[0], args.in[1]);
  const int64_t N = rows.count, window = args.attrs.as<AttentionAttrs>().window;
  const int32_t* until = optional_ids(args, 2);
  const Range mine = share_rows(ctx, N, N);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    float* mask = args.out[0].as<float>() + i * N;
    std::fill_n(mask, N, -std::numeric_limits<float>::infinity());
    mask[i] = 0;
    for (int64_t j = i - 1; j >= 0 && rows.follows(j + 1); --j) {
      if (window > 0 && rows.pos[i] - rows.pos[j] >= window) break;
      mask[j] = 0;
    }
    for (int64_t j = i + 1; until && j < N && rows.follows(j) && rows.pos[j] < until[i]; ++j) mask[j] = 0;
  }
}

}  // namespace

KernelRecord one_hot_kernel() { return {.op = "one_hot", .code = one_hot}; }
KernelRecord attention_mask_kernel() { return {.op = "attention_mask", .code = attention_mask}; }

}  // namespace toy::cpu

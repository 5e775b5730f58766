// Tensors made from indices: one_hot and the mask of attention. The decompositions of fused ops use
// them.
#include <algorithm>
#include <limits>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// y_nj = [j == id_n]; a negative id means "none" and gives zeros
void one_hot(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int32_t* id = indices(args, 0);
  double* y = output(args, 0);
  const int64_t N = args.in[0].shape.count(), classes = args.attrs.as<OneHotAttrs>().classes;
  std::fill_n(y, N * classes, 0.0);
  for (int64_t n = 0; n < N; ++n) {
    if (id[n] >= classes) ctx.report(KernelFault::id, n, id[n]);
    if (id[n] >= 0 && id[n] < classes) y[n * classes + id[n]] = 1;
  }
}

// mask_ij = 0 where row i may see row j, -inf elsewhere. Row i sees the rows behind it in its own run (one
// sequence, positions that grow by one) and itself, as far back as the window reaches (0: all of them), and those after
// it before position until_i.
void attention_mask(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int32_t *seq = indices(args, 0), *pos = indices(args, 1),
                *until = args.in.size() > 2 ? indices(args, 2) : nullptr;
  const int64_t N = args.in[0].shape[0], window = args.attrs.as<AttentionAttrs>().window;
  double* mask = output(args, 0);
  std::fill_n(mask, N * N, -std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < N; ++i) {
    mask[i * N + i] = 0;
    for (int64_t j = i - 1; j >= 0 && seq[j] == seq[i] && pos[j] + 1 == pos[j + 1]; --j) {
      if (window > 0 && pos[i] - pos[j] >= window) break;
      mask[i * N + j] = 0;
    }
    for (int64_t j = i + 1; until && j < N && seq[j] == seq[i] && pos[j - 1] + 1 == pos[j] && pos[j] < until[i]; ++j)
      mask[i * N + j] = 0;
  }
}

}  // namespace

KernelRecord one_hot_kernel() { return {.op = "one_hot", .code = one_hot}; }
KernelRecord attention_mask_kernel() { return {.op = "attention_mask", .code = attention_mask}; }

}  // namespace toy::reference

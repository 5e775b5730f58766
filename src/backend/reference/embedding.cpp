// Rows of a table, and their gradient. V rows of width D; N of them are looked up.
#include "backend/reference/kernels.h"

namespace toy::reference {
namespace {

// out_n = table[id_n]; an id that is not in the table is reported and gives zeros
void embedding(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double* table = input(args, 0);
  const int32_t* id = indices(args, 1);
  double* out = output(args, 0);
  const int64_t V = args.in[0].shape[0], D = args.in[0].shape[1], N = args.in[1].count();
  for (int64_t n = 0; n < N; ++n) {
    const bool known = id[n] >= 0 && id[n] < V;
    if (!known) ctx.report(KernelFault::id, n, id[n]);
    for (int64_t d = 0; d < D; ++d) out[n * D + d] = known ? table[id[n] * D + d] : 0;
  }
}

// acc[id_n] += dy_n for n = 0, 1, ...
void embedding_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double* dy = input(args, 0);
  const int32_t* id = indices(args, 1);
  double* acc = output(args, 0);
  const int64_t N = args.in[1].count(), D = args.in[2].shape[1], V = args.in[2].shape[0];
  for (int64_t n = 0; n < N; ++n) {
    if (id[n] < 0 || id[n] >= V) {
      ctx.report(KernelFault::id, n, id[n]);
      continue;
    }
    for (int64_t d = 0; d < D; ++d) acc[id[n] * D + d] += dy[n * D + d];
  }
}

}  // namespace

KernelRecord embedding_kernel() { return {.op = "embedding", .code = embedding}; }
KernelRecord embedding_grad_kernel() { return {.op = "embedding_grad", .in_place = {{0, 2}}, .code = embedding_grad}; }

}  // namespace toy::reference

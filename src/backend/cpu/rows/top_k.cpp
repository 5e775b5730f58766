// The k largest elements of each row: exact. Rows are short, so one is a plain insertion into the best so far.
#include <algorithm>
#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const int64_t E = args.in[0].shape[1], k = args.attrs.as<TopKAttrs>().k;
  const auto before = [](float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); };
  const Range rows = share_rows(ctx, args.in[0].shape[0], E * k);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * E;
    float* y = args.out[0].as<float>() + n * k;
    int32_t* ids = args.out[1].as<int32_t>() + n * k;
    int64_t found = 0;
    for (int64_t e = 0; e < E; ++e) {
      if (found == k && !before(x[e], y[k - 1])) continue;
      int64_t at = std::min(found, k - 1);
      for (; at > 0 && before(x[e], y[at - 1]); --at) y[at] = y[at - 1], ids[at] = ids[at - 1];
      y[at] = x[e], ids[at] = int32_t(e);
      found = std::min(found + 1, k);
    }
  }
}

}  // namespace

KernelRecord top_k_kernel() { return {.op = "top_k", .code = run}; }

}  // namespace toy::cpu

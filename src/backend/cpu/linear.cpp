// linear: y = x w^T + bias + acc. A row has the same bits in any batch.
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"

namespace toy::cpu {
namespace {

enum : int { kX, kW, kBias, kAcc };

bool accepts(const KernelQuery& q) noexcept {
  for (int i : {kX, kBias, kAcc})
    if (q.in[i].present && q.in[i].dtype != DType::f32) return false;
  return q.out[0].dtype == DType::f32 && is_weight_type(q.in[kW].dtype);
}

size_t workspace(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return dot_workspace(rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), q.threads);
}

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& w = args.in[kW];
  const DotProduct p{.x = args.in[kX].as<float>(),
                     .w = w.data,
                     .w_type = w.dtype,
                     .rows = rows_of(args.in[kX].shape),
                     .outs = size_t(w.shape[0]),
                     .k = size_t(w.shape[1]),
                     .bias = args.in[kBias].as<float>(),
                     .acc = args.in[kAcc].as<float>(),
                     .y = args.out[0].as<float>()};
  dot_product(p, ctx.thread, ctx.threads, args.workspace);
}

}  // namespace

KernelRecord linear_kernel() {
  return {.op = "linear", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace, .run = run};
}

}  // namespace toy::cpu

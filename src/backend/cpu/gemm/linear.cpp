// linear: y = x w^T + bias + acc. A row has the same bits in any batch, with bf16 products too (they are for training,
// where the plan allows them).
#include "backend/cpu/gemm/gemm.h"
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
  dot_product(p, ctx, args.workspace);
}

// Below that many rows the product waits for memory, whatever it computes in.
constexpr size_t kLeastRows = 32;

bool accepts_bf16(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && has_bf16_products() && accepts(q) && q.in[kW].dtype == DType::f32 &&
         !(q.in[kBias].present && q.in[kAcc].present) && rows_of(q.in[kX].shape) >= kLeastRows;
}

size_t workspace_bf16(const KernelQuery& q) noexcept {
  return outer_workspace(rows_of(q.in[kX].shape), size_t(q.in[kW].shape[0]), size_t(q.in[kW].shape[1]), q.threads,
                         q.products);
}

void run_bf16(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Shape& w = args.in[kW].shape;
  const float *bias = args.in[kBias].as<float>(), *acc = args.in[kAcc].as<float>();
  const OuterProduct p{.a = {args.in[kX].data, size_t(w[1]), 1},
                       .b = {args.in[kW].data, 1, size_t(w[1])},
                       .m = rows_of(args.in[kX].shape),
                       .n = size_t(w[0]),
                       .k = size_t(w[1]),
                       .init = bias ? bias : acc,
                       .init_is_row = bias != nullptr,
                       .c = args.out[0].as<float>()};
  outer_product_bf16(p, ctx, args.workspace);
}

}  // namespace

KernelRecord linear_bf16_kernel() {
  return {
      .op = "linear", .in_place = {{0, kAcc}}, .accepts = accepts_bf16, .workspace = workspace_bf16, .code = run_bf16};
}

KernelRecord linear_kernel() {
  return {.op = "linear", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace, .code = run};
}

}  // namespace toy::cpu

// linear_grad_x: dx = acc + dy w. linear_grad_w: dw = acc + dy^T x. Sums start from acc. Each also with bf16 products.
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"

namespace toy::cpu {
namespace {

enum : int { kDy, kOther, kAcc };  // kOther: w, or x

bool accepts_x(const KernelQuery& q) noexcept {
  if (q.in[kDy].dtype != DType::f32 || q.out[0].dtype != DType::f32) return false;
  if (q.in[kAcc].present && q.in[kAcc].dtype != DType::f32) return false;
  return is_weight_type(q.in[kOther].dtype);
}

bool accepts_bf16(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && has_bf16_products() && accepts_x(q) && q.in[kOther].dtype == DType::f32;
}

template <bool kBf16>
void product(const OuterProduct& p, const ExecContext& ctx, const KernelArgs& args) {
  if constexpr (kBf16)
    outer_product_bf16(p, ctx, args.workspace);
  else
    outer_product(p, ctx, args.workspace);
}

size_t workspace_x(const KernelQuery& q) noexcept {
  const Shape& dy = q.in[kDy].shape;
  return outer_workspace(rows_of(dy), size_t(q.in[kOther].shape[1]), size_t(dy.back()), q.threads, q.products);
}

template <bool kBf16>
void run_x(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& w = args.in[kOther];
  const size_t outs = size_t(w.shape[0]), ins = size_t(w.shape[1]);
  const OuterProduct p{.a = {args.in[kDy].data, outs, 1},
                       .b = {w.data, ins, 1},
                       .b_type = w.dtype,
                       .m = rows_of(args.in[kDy].shape),
                       .n = ins,
                       .k = outs,
                       .init = args.in[kAcc].as<float>(),
                       .c = args.out[0].as<float>()};
  product<kBf16>(p, ctx, args);
}

size_t workspace_w(const KernelQuery& q) noexcept {
  const Shape& dy = q.in[kDy].shape;
  return outer_workspace(size_t(dy.back()), size_t(q.in[kOther].shape.back()), rows_of(dy), q.threads, q.products);
}

template <bool kBf16>
void run_w(const ExecContext& ctx, const KernelArgs& args) noexcept {
  OuterProduct p = product_of_grad_w(args.in[kDy], args.in[kOther]);
  p.init = args.in[kAcc].as<float>();
  p.c = args.out[0].as<float>();
  product<kBf16>(p, ctx, args);
}

KernelRecord grad_x(bool (*accepts)(const KernelQuery&) noexcept, KernelCode code) {
  return {.op = "linear_grad_x", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace_x, .code = code};
}
KernelRecord grad_w(bool (*accepts)(const KernelQuery&) noexcept, KernelCode code) {
  return {.op = "linear_grad_w", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace_w, .code = code};
}

}  // namespace

OuterProduct product_of_grad_w(const View& dy, const View& x) {
  const size_t outs = size_t(dy.shape.back()), ins = size_t(x.shape.back());
  return {.a = {dy.data, 1, outs}, .b = {x.data, ins, 1}, .m = outs, .n = ins, .k = rows_of(dy.shape)};
}

KernelRecord linear_grad_x_kernel() { return grad_x(accepts_x, run_x<false>); }
KernelRecord linear_grad_w_kernel() { return grad_w(nullptr, run_w<false>); }
KernelRecord linear_grad_x_bf16_kernel() { return grad_x(accepts_bf16, run_x<true>); }
KernelRecord linear_grad_w_bf16_kernel() { return grad_w(accepts_bf16, run_w<true>); }

}  // namespace toy::cpu

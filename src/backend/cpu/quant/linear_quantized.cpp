// linear: y = x w^T + bias + acc on block-quantized weights, which stay as they lie in the file.
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant/quant.h"

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
          .y = args.out[0].as<float>(),
          .rounded = args.prepared};
}

// ---- rows of x in 8 bits

bool accepts_rounded(const KernelQuery& q) noexcept { return q.products == DType::q8_0 && accepts(q); }

size_t workspace_rounded(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return quant_workspace(q.in[kW].dtype, rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), q.threads);
}

bool rounds_for(const KernelQuery& first, const KernelQuery& second) noexcept {
  return shares_rounded(first.in[kW].dtype, size_t(first.in[kW].shape[0]), second.in[kW].dtype,
                        size_t(second.in[kW].shape[0]));
}

void run_rounded(const ExecContext& ctx, const KernelArgs& args) noexcept {
  quant_product(product_of(args), ctx, args.workspace);
}

// ---- the same on a repacked copy of the weights

size_t bytes_of_copy(DType type, const Shape& w) noexcept {
  return is_quantized(type) && w.rank() == 2 ? repacked_bytes(type, size_t(w[0]), size_t(w[1])) : 0;
}

void run_repacked(const ExecContext& ctx, const KernelArgs& args) noexcept {
  QuantProduct p = product_of(args);
  p.repacked = true;
  quant_product(p, ctx, args.workspace);
}

void write_repacked(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &w = args.in[0], &to = args.out[0];
  repack(w.dtype, w.as<std::byte>(), size_t(w.shape[0]), size_t(w.shape[1]), ctx, to.as<std::byte>());
}

const Repacking* repacking() {
  static const KernelRecord write{.op = "repack", .code = write_repacked}, kernel{.op = "linear",
                                                                                  .in_place = {{0, kAcc}},
                                                                                  .accepts = accepts_rounded,
                                                                                  .workspace = workspace_rounded,
                                                                                  .prepares = rounds_for,
                                                                                  .code = run_repacked};
  static const Repacking how{kW, bytes_of_copy, &write, &kernel};
  return &how;
}

// ---- exactly

size_t workspace_exact(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return exact_workspace(rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), q.threads);
}

void run_exact(const ExecContext& ctx, const KernelArgs& args) noexcept {
  exact_product(product_of(args), ctx, args.workspace);
}

// ---- linear_grad_x: dx = acc + dy w

enum : int { kDy = 0, kAccX = 2 };

bool accepts_grad_x(const KernelQuery& q) noexcept {
  if (q.in[kDy].dtype != DType::f32 || q.out[0].dtype != DType::f32) return false;
  return (!q.in[kAccX].present || q.in[kAccX].dtype == DType::f32) && is_quantized(q.in[kW].dtype);
}

size_t workspace_grad_x(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return exact_grad_x_workspace(rows_of(q.in[kDy].shape), size_t(w[0]), size_t(w[1]), q.threads);
}

void run_grad_x(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& w = args.in[kW];
  exact_grad_x({.dy = args.in[kDy].as<float>(),
                .w = w.as<std::byte>(),
                .w_type = w.dtype,
                .rows = rows_of(args.in[kDy].shape),
                .outs = size_t(w.shape[0]),
                .ins = size_t(w.shape[1]),
                .init = args.in[kAccX].as<float>(),
                .dx = args.out[0].as<float>()},
               ctx, args.workspace);
}

}  // namespace

KernelRecord linear_grad_x_exact_kernel() {
  return {.op = "linear_grad_x",
          .in_place = {{0, kAccX}},
          .accepts = accepts_grad_x,
          .workspace = workspace_grad_x,
          .code = run_grad_x};
}

KernelRecord linear_quantized_kernel() {
  return {.op = "linear",
          .in_place = {{0, kAcc}},
          .accepts = accepts_rounded,
          .workspace = workspace_rounded,
          .prepares = rounds_for,
          .code = run_rounded,
          .repacking = repacking()};
}

KernelRecord linear_exact_kernel() {
  return {.op = "linear", .in_place = {{0, kAcc}}, .accepts = accepts, .workspace = workspace_exact, .code = run_exact};
}

}  // namespace toy::cpu

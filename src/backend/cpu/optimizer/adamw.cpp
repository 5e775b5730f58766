// One AdamW step (Loshchilov and Hutter 2019; weight decay scaled by the learning rate, as in PyTorch): one
// pass over w, g, m, v, bound by memory (16 bytes read and 12 written an element). Or block by block while
// linear_grad_w makes the gradient, so that memory is waited for while the product is computed.
//
// Error, with u = 2^-24: m' is within 4u (|b1 m| + |(1-b1) g|), v' within 6u of itself, w' within
// 3u (|w| + |w'|) + 14u lr |m'|_1 / bias1 / (sqrt(v'/bias2) + eps), |m'|_1 = |b1 m| + |(1-b1) g|.
#define TOY_TARGET_FILE "backend/cpu/optimizer/adamw.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>

#include "backend/cpu/elementwise/fused.h"
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/optimizer/adam-inl.h"
#include "backend/cpu/rows/gradient-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/backend/fused.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// `g`: one block of the gradient.
void adamw_block(const ExecContext& ctx, const KernelArgs& args, const OuterBlock& g) {
  const auto scalar = [&](size_t i) { return double(*args.in[i].as<const float>()); };
  const float gscale = scale_of_gradients(args, 7);
  if (!std::isfinite(gscale)) return;  // the step is skipped
  Gradients gradients(gscale);
  const Adam adam(args.attrs.as<AdamWAttrs>(), scalar(4), scalar(5), scalar(6));

  const Shape& shape = args.in[0].shape;
  const size_t ld = shape.rank() > 0 ? size_t(shape.back()) : 1, first = g.row * ld + g.col;
  const auto in = [&](size_t i) { return args.in[i].as<const float>() + first; };
  const auto out = [&](size_t i) { return args.out[i].as<float>() + first; };
  const float *w = in(0), *m = in(2), *v = in(3);
  float *w_out = out(0), *m_out = out(1), *v_out = out(2);
  for (size_t row = 0; row < g.rows; ++row) {
    const float* g_row = g.c + row * g.ldc;
    const int64_t begin = int64_t(row * ld);
    for_each_vector(int64_t(g.cols), [&](auto io, int64_t i) HWY_ATTR {
      const VF gi = gradients.load(io, g_row + i);
      VF mi = io.load(m + begin + i), vi = io.load(v + begin + i);
      io.store(adam(io.load(w + begin + i), gi, mi, vi), w_out + begin + i);
      io.store(mi, m_out + begin + i);
      io.store(vi, v_out + begin + i);
    });
  }
  gradients.report(ctx);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(adamw_block);

void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Range r = share_elements(ctx, args.in[0].count());
  const OuterBlock mine{args.in[1].as<const float>() + r.begin, 0, 0, size_t(r.begin), 1, size_t(r.size())};
  HWY_DYNAMIC_DISPATCH(adamw_block)(ctx, args, mine);
}

// Operands as adamw's, without g; behind them those of linear_grad_w. The gradient never comes to memory.
constexpr size_t kDy = 8, kX = 9;

struct Updater : OuterConsumer {
  const ExecContext& ctx;
  const KernelArgs& args;
  Updater(const ExecContext& c, const KernelArgs& a) : ctx(c), args(a) {
    use = [](const OuterConsumer& self, const OuterBlock& g) {
      const auto& mine = static_cast<const Updater&>(self);
      HWY_DYNAMIC_DISPATCH(adamw_block)(mine.ctx, mine.args, g);
    };
    for (size_t i = 0; i < 3; ++i) touches[i] = a.out[i].as<const float>();
  }
};

// Products in bf16 take half the time, too little to hide the update behind: there the two are faster one by one.
bool accepts_product(const KernelQuery& q) noexcept {
  return q.products == DType::f32 && only_f32(q) && consumes(rows_of(q.in[kDy].shape));
}

size_t product_workspace(const KernelQuery& q) noexcept {
  const Shape& dy = q.in[kDy].shape;
  return outer_workspace(size_t(dy.back()), size_t(q.in[kX].shape.back()), rows_of(dy), q.threads, q.products);
}

void run_product(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Updater updater(ctx, args);
  OuterProduct p = product_of_grad_w(args.in[kDy], args.in[kX]);
  p.consumer = &updater;
  outer_product(p, ctx, args.workspace);
}

}  // namespace

KernelRecord adamw_kernel() {
  return {.op = "adamw", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .accepts = only_f32, .code = run};
}

KernelRecord linear_grad_w_adamw_kernel() {
  return {.op = kLinearGradWAdamW, .accepts = accepts_product, .workspace = product_workspace, .code = run_product};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE

// linear_xent: softmax cross-entropy of x w^T without ever holding all logits. Rows are done in chunks whose
// size depends on the vocabulary alone: logits by dot_product, then each row becomes its own gradient in
// place, then dx and dw by outer_product, dw summed over chunks in order.
#include <cmath>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/xent_row.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant/quant.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

enum : int { kX, kW, kTargets, kWeight, kZ, kB };
enum : int { kLoss, kNll, kDx, kDw, kDz, kDb };

// The largest multiple of 64 rows whose logits take 64 MiB, and at least 64: dw is read and written once a chunk, which
// with half as many rows took a tenth of the time.
size_t chunk_rows(size_t vocab) { return std::max<size_t>(64, (size_t(64) << 20) / (vocab * 4) / 64 * 64); }

// Parts of the workspace. Products that may run side by side in different threads have parts of their own.
struct Space {
  size_t logits = 0, nll, slopes, product, bytes;
  // `added`: width of z, 0 without it.
  Space(size_t rows, size_t vocab, size_t width, size_t added, bool want_dx, bool want_dw, int threads, bool bf16,
        bool softcap, bool quantized) {
    const size_t chunk = std::min(rows, chunk_rows(vocab));
    const auto outer = [&](size_t m, size_t n, size_t k) {
      return outer_workspace(m, n, k, threads, bf16 ? DType::bf16 : DType::f32);
    };
    size_t most = bf16 ? outer(chunk, vocab, width) : dot_workspace(chunk, vocab, width, threads);
    if (quantized) most = exact_workspace(chunk, vocab, width, threads);
    if (want_dx && quantized) most = std::max(most, exact_grad_x_workspace(chunk, vocab, width, threads));
    if (want_dx && !quantized) most = std::max(most, outer(chunk, width, vocab));
    if (want_dw) most = std::max(most, outer(vocab, width, chunk));
    if (added > 0)
      most = std::max({most, dot_workspace(chunk, vocab, added, threads), outer_workspace(chunk, added, vocab, threads),
                       outer_workspace(vocab, added, chunk, threads)});
    nll = logits + round_up(chunk * vocab * sizeof(float), 64);
    slopes = nll + round_up(chunk * sizeof(float), 64);
    product = slopes + (softcap ? size_t(threads) * round_up(vocab * sizeof(float), 64) : 0);
    bytes = product + most;
  }
};

bool accepts_f32(const KernelQuery& q) noexcept {
  if (q.in[kX].dtype != DType::f32 || q.in[kTargets].dtype != DType::i32 || q.in[kWeight].dtype != DType::f32)
    return false;
  for (const int i : {kZ, kB})
    if (q.in[i].present && q.in[i].dtype != DType::f32) return false;
  const DType w = q.in[kW].dtype;
  return q.out[kDw].present ? w == DType::f32 : is_weight_type(w) || is_quantized(w);
}

bool accepts_bf16(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && has_bf16_products() && accepts_f32(q) && q.in[kW].dtype == DType::f32;
}

template <bool kBf16>
size_t workspace(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return Space(rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), q.in[kZ].present ? size_t(q.in[kZ].shape[1]) : 0,
               q.out[kDx].present, q.out[kDw].present, q.threads, kBf16, q.attrs.as<LinearXentAttrs>().softcap > 0,
               is_quantized(q.in[kW].dtype))
      .bytes;
}

// One call, as one thread sees it.
template <bool kBf16>
class Xent {
 public:
  Xent(const ExecContext& ctx, const KernelArgs& args)
      : ctx_(ctx),
        w_(args.in[kW]),
        rows_(rows_of(args.in[kX].shape)),
        vocab_(size_t(w_.shape[0])),
        width_(size_t(w_.shape[1])),
        x_(args.in[kX].as<float>()),
        targets_(args.in[kTargets].as<int32_t>()),
        weight_(args.in[kWeight].as<float>()),
        loss_(args.out[kLoss].as<float>()),
        nll_(args.out[kNll].as<float>()),
        dx_(args.out[kDx].as<float>()),
        dw_(args.out[kDw].as<float>()),
        z_(args.in[kZ].as<float>()),
        b_(args.in[kB].as<float>()),
        dz_(args.out[kDz].as<float>()),
        db_(args.out[kDb].as<float>()),
        added_(z_ ? size_t(args.in[kZ].shape[1]) : 0),
        workspace_(args.workspace),
        softcap_(float(args.attrs.as<LinearXentAttrs>().softcap)),
        space_(rows_, vocab_, width_, added_, dx_ != nullptr, dw_ != nullptr, ctx.threads, kBf16, softcap_ > 0,
               is_quantized(w_.dtype)) {}

  void run() {
    double loss = 0;
    if (rows_ == 0 && dw_) {
      const Range r = ctx_.share(int64_t(vocab_ * width_));
      std::fill(dw_ + r.begin, dw_ + r.end, 0.0f);
    }
    if (rows_ == 0 && db_) {
      const Range r = ctx_.share(int64_t(vocab_ * added_));
      std::fill(db_ + r.begin, db_ + r.end, 0.0f);
    }
    for (size_t begin = 0, step = chunk_rows(vocab_); begin < rows_; begin += step) {
      const size_t rows = std::min(step, rows_ - begin);
      // Where nobody wants the single terms they lie in the workspace.
      float* nll = nll_ ? nll_ + begin : reinterpret_cast<float*>(workspace_ + space_.nll);
      if (begin > 0) ctx_.barrier();  // the previous chunk's logits are still read
      compute_logits(begin, rows);
      if (z_) ctx_.barrier(), add_to_logits(begin, rows);
      ctx_.barrier();
      const Range mine = ctx_.share(int64_t(rows));
      for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i) nll[i] = row(begin + i, logits() + i * vocab_);
      ctx_.barrier();
      if (dx_) compute_dx(begin, rows);
      if (dx_ && dw_) ctx_.barrier();  // both share work out, and the workspace
      if (dw_) compute_dw(begin, rows);
      // In f32 whatever the other products are: they are narrow.
      if ((dx_ || dw_) && (dz_ || db_)) ctx_.barrier();
      if (dz_) compute_dz(begin, rows);
      if (dz_ && db_) ctx_.barrier();
      if (db_) compute_db(begin, rows);
      if (ctx_.thread == 0)
        for (size_t i = 0; i < rows; ++i)
          if (counts(begin + i)) loss += double(weight_[begin + i]) * double(nll[i]);
    }
    if (ctx_.thread == 0 && loss_) *loss_ = float(loss);
  }

 private:
  float* logits() const { return reinterpret_cast<float*>(workspace_ + space_.logits); }
  float* slopes() const {  // of this thread
    return reinterpret_cast<float*>(workspace_ + space_.slopes +
                                    size_t(ctx_.thread) * round_up(vocab_ * sizeof(float), 64));
  }
  bool has_target(size_t i) const { return targets_[i] >= 0 && size_t(targets_[i]) < vocab_; }
  bool counts(size_t i) const { return has_target(i) && weight_[i] != 0; }

  // The row's term; its logits become their gradient, which is zero where the row does not count.
  float row(size_t i, float* logits) const {
    const bool gradient = dx_ || dw_ || dz_ || db_;
    if (targets_[i] >= 0 && size_t(targets_[i]) >= vocab_) ctx_.report(KernelFault::target, int64_t(i), targets_[i]);
    float nll = 0;
    const bool with_gradient = gradient && counts(i);
    if (has_target(i) && softcap_ > 0) softcap_row(logits, vocab_, softcap_, with_gradient ? slopes() : nullptr);
    if (has_target(i)) nll = xent_row(logits, vocab_, size_t(targets_[i]), weight_[i], with_gradient);
    if (with_gradient && softcap_ > 0) times_slope(logits, slopes(), vocab_);
    if (gradient && !counts(i)) std::fill(logits, logits + vocab_, 0.0f);
    return nll;
  }

  void product(const OuterProduct& p) const {
    if constexpr (kBf16)
      outer_product_bf16(p, ctx_, workspace_ + space_.product);
    else
      outer_product(p, ctx_, workspace_ + space_.product);
  }
  void compute_logits(size_t begin, size_t rows) const {
    if (is_quantized(w_.dtype))
      return exact_product({.x = x_ + begin * width_,
                            .w = w_.as<std::byte>(),
                            .w_type = w_.dtype,
                            .rows = rows,
                            .outs = vocab_,
                            .k = width_,
                            .y = logits()},
                           ctx_, workspace_ + space_.product);
    if constexpr (kBf16) {
      const OuterProduct p{.a = {x_ + begin * width_, width_, 1},
                           .b = {w_.data, 1, width_},
                           .m = rows,
                           .n = vocab_,
                           .k = width_,
                           .c = logits()};
      return product(p);
    }
    const DotProduct p{.x = x_ + begin * width_,
                       .w = w_.data,
                       .w_type = w_.dtype,
                       .rows = rows,
                       .outs = vocab_,
                       .k = width_,
                       .y = logits()};
    dot_product(p, ctx_, workspace_ + space_.product);
  }
  void add_to_logits(size_t begin, size_t rows) const {
    dot_product(
        {.x = z_ + begin * added_, .w = b_, .rows = rows, .outs = vocab_, .k = added_, .acc = logits(), .y = logits()},
        ctx_, workspace_ + space_.product);
  }
  void compute_dz(size_t begin, size_t rows) const {
    outer_product({.a = {logits(), vocab_, 1},
                   .b = {b_, added_, 1},
                   .m = rows,
                   .n = added_,
                   .k = vocab_,
                   .c = dz_ + begin * added_},
                  ctx_, workspace_ + space_.product);
  }
  void compute_db(size_t begin, size_t rows) const {
    outer_product({.a = {logits(), 1, vocab_},
                   .b = {z_ + begin * added_, added_, 1},
                   .m = vocab_,
                   .n = added_,
                   .k = rows,
                   .init = begin == 0 ? nullptr : db_,
                   .c = db_},
                  ctx_, workspace_ + space_.product);
  }
  void compute_dx(size_t begin, size_t rows) const {
    if (is_quantized(w_.dtype))
      return exact_grad_x({.dy = logits(),
                           .w = w_.as<std::byte>(),
                           .w_type = w_.dtype,
                           .rows = rows,
                           .outs = vocab_,
                           .ins = width_,
                           .dx = dx_ + begin * width_},
                          ctx_, workspace_ + space_.product);
    const OuterProduct p{.a = {logits(), vocab_, 1},
                         .b = {w_.data, width_, 1},
                         .b_type = w_.dtype,
                         .m = rows,
                         .n = width_,
                         .k = vocab_,
                         .c = dx_ + begin * width_};
    product(p);
  }
  void compute_dw(size_t begin, size_t rows) const {
    const OuterProduct p{.a = {logits(), 1, vocab_},
                         .b = {x_ + begin * width_, width_, 1},
                         .m = vocab_,
                         .n = width_,
                         .k = rows,
                         .init = begin == 0 ? nullptr : dw_,
                         .c = dw_};
    product(p);
  }

  const ExecContext& ctx_;
  const View& w_;
  const size_t rows_, vocab_, width_;
  const float* const x_;
  const int32_t* const targets_;
  const float* const weight_;
  float *const loss_, *const nll_, *const dx_, *const dw_;
  const float *const z_, *const b_;
  float *const dz_, *const db_;
  const size_t added_;
  std::byte* const workspace_;
  const float softcap_;
  const Space space_;
};

template <bool kBf16>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  Xent<kBf16>(ctx, args).run();
}

}  // namespace

KernelRecord linear_xent_kernel() {
  return {.op = "linear_xent", .accepts = accepts_f32, .workspace = workspace<false>, .code = run<false>};
}
KernelRecord linear_xent_bf16_kernel() {
  return {.op = "linear_xent", .accepts = accepts_bf16, .workspace = workspace<true>, .code = run<true>};
}

}  // namespace toy::cpu

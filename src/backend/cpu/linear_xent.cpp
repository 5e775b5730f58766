// linear_xent: softmax cross-entropy of x w^T without ever holding all logits. Rows are done in chunks whose
// size depends on the vocabulary alone: logits by dot_product, then each row becomes its own gradient in
// place, then dx and dw by outer_product, dw summed over chunks in order. A low-rank change u b^T of the logits is
// added as `linear` with `acc` would.
#include <cmath>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant.h"
#include "backend/cpu/xent_row.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

enum : int { kX, kW, kTargets, kWeight, kU, kB };
enum : int { kLoss, kNll, kDx, kDw, kDu, kDb };

// The largest multiple of 64 rows whose logits take 64 MiB, and at least 64: dw is read and written once a chunk, which
// with half as many rows took a tenth of the time.
size_t chunk_rows(size_t vocab) { return std::max<size_t>(64, (size_t(64) << 20) / (vocab * 4) / 64 * 64); }

// Parts of the workspace. Products that may run side by side in different threads have parts of their own.
struct Space {
  size_t logits = 0, nll, slopes, product, bytes;
  Space(size_t rows, size_t vocab, size_t width, size_t rank, bool want_dx, bool want_dw, int threads, bool bf16,
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
    if (rank > 0)
      most = std::max({most, dot_workspace(chunk, vocab, rank, threads),
                       outer_workspace(chunk, rank, vocab, threads, DType::f32),
                       outer_workspace(vocab, rank, chunk, threads, DType::f32)});
    nll = logits + round_up(chunk * vocab * sizeof(float), 64);
    slopes = nll + round_up(chunk * sizeof(float), 64);
    product = slopes + (softcap ? size_t(threads) * round_up(vocab * sizeof(float), 64) : 0);
    bytes = product + most;
  }
};

bool accepts_f32(const KernelQuery& q) noexcept {
  if (q.in[kX].dtype != DType::f32 || q.in[kTargets].dtype != DType::i32 || q.in[kWeight].dtype != DType::f32)
    return false;
  for (const int low : {kU, kB})
    if (q.in[low].present && q.in[low].dtype != DType::f32) return false;
  const DType w = q.in[kW].dtype;
  return q.out[kDw].present ? w == DType::f32 : is_weight_type(w) || is_quantized(w);
}

bool accepts_bf16(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && has_bf16_products() && accepts_f32(q) && q.in[kW].dtype == DType::f32;
}

size_t rank_of(const KernelQuery& q) { return q.in[kU].present ? size_t(q.in[kU].shape[1]) : 0; }

template <bool kBf16>
size_t workspace(const KernelQuery& q) noexcept {
  const Shape& w = q.in[kW].shape;
  return Space(rows_of(q.in[kX].shape), size_t(w[0]), size_t(w[1]), rank_of(q), q.out[kDx].present, q.out[kDw].present,
               q.threads, kBf16, q.attrs.as<LinearXentAttrs>().softcap > 0, is_quantized(q.in[kW].dtype))
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
        rank_(args.in[kU].data ? size_t(args.in[kU].shape[1]) : 0),
        x_(args.in[kX].as<float>()),
        targets_(args.in[kTargets].as<int32_t>()),
        weight_(args.in[kWeight].as<float>()),
        u_(args.in[kU].as<float>()),
        b_(args.in[kB].as<float>()),
        loss_(args.out[kLoss].as<float>()),
        nll_(args.out[kNll].as<float>()),
        dx_(args.out[kDx].as<float>()),
        dw_(args.out[kDw].as<float>()),
        du_(rank_ > 0 ? args.out[kDu].as<float>() : nullptr),
        db_(rank_ > 0 ? args.out[kDb].as<float>() : nullptr),
        workspace_(args.workspace),
        softcap_(float(args.attrs.as<LinearXentAttrs>().softcap)),
        space_(rows_, vocab_, width_, rank_, dx_ != nullptr, dw_ != nullptr, ctx.threads, kBf16, softcap_ > 0,
               is_quantized(w_.dtype)) {}

  void run() {
    double loss = 0;
    if (rows_ == 0) {
      clear(dw_, vocab_ * width_);
      clear(db_, vocab_ * rank_);
    }
    for (size_t begin = 0, step = chunk_rows(vocab_); begin < rows_; begin += step) {
      const size_t rows = std::min(step, rows_ - begin);
      // Where nobody wants the single terms they lie in the workspace.
      float* nll = nll_ ? nll_ + begin : reinterpret_cast<float*>(workspace_ + space_.nll);
      if (begin > 0) ctx_.barrier();  // the previous chunk's logits are still read
      compute_logits(begin, rows);
      ctx_.barrier();
      if (rank_ > 0) {
        add_low_rank(begin, rows);
        ctx_.barrier();
      }
      const Range mine = ctx_.share(int64_t(rows));
      for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i) nll[i] = row(begin + i, logits() + i * vocab_);
      ctx_.barrier();
      if (dx_) compute_dx(begin, rows);
      if (dx_ && dw_) ctx_.barrier();  // both share work out, and the workspace
      if (dw_) compute_dw(begin, rows);
      if (du_) {
        if (dx_ || dw_) ctx_.barrier();
        compute_du(begin, rows);
      }
      if (db_) {
        if (dx_ || dw_ || du_) ctx_.barrier();
        compute_db(begin, rows);
      }
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
  void clear(float* gradient, size_t count) const {
    if (!gradient) return;
    const Range r = ctx_.share(int64_t(count));
    std::fill(gradient + r.begin, gradient + r.end, 0.0f);
  }
  bool has_target(size_t i) const { return targets_[i] >= 0 && size_t(targets_[i]) < vocab_; }
  bool counts(size_t i) const { return has_target(i) && weight_[i] != 0; }

  // The row's term; its logits become their gradient, which is zero where the row does not count.
  float row(size_t i, float* logits) const {
    const bool gradient = dx_ || dw_ || du_ || db_;
    if (targets_[i] >= 0 && size_t(targets_[i]) >= vocab_)
      ctx_.error->set("linear_xent: row {} has target {}", int64_t(i), targets_[i]);
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

  void add_low_rank(size_t begin, size_t rows) const {
    dot_product(
        {.x = u_ + begin * rank_, .w = b_, .rows = rows, .outs = vocab_, .k = rank_, .acc = logits(), .y = logits()},
        ctx_, workspace_ + space_.product);
  }
  void compute_du(size_t begin, size_t rows) const {
    const OuterProduct p{
        .a = {logits(), vocab_, 1}, .b = {b_, rank_, 1}, .m = rows, .n = rank_, .k = vocab_, .c = du_ + begin * rank_};
    outer_product(p, ctx_, workspace_ + space_.product);
  }
  void compute_db(size_t begin, size_t rows) const {
    const OuterProduct p{.a = {logits(), 1, vocab_},
                         .b = {u_ + begin * rank_, rank_, 1},
                         .m = vocab_,
                         .n = rank_,
                         .k = rows,
                         .init = begin == 0 ? nullptr : db_,
                         .c = db_};
    outer_product(p, ctx_, workspace_ + space_.product);
  }

  const ExecContext& ctx_;
  const View& w_;
  const size_t rows_, vocab_, width_, rank_;
  const float* const x_;
  const int32_t* const targets_;
  const float *const weight_, *const u_, *const b_;
  float *const loss_, *const nll_, *const dx_, *const dw_, *const du_, *const db_;
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
  return {.op = "linear_xent", .accepts = accepts_f32, .workspace = workspace<false>, .run = run<false>};
}
KernelRecord linear_xent_bf16_kernel() {
  return {.op = "linear_xent", .accepts = accepts_bf16, .workspace = workspace<true>, .run = run<true>};
}

}  // namespace toy::cpu

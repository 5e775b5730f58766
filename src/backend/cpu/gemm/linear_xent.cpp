// linear_xent: softmax cross-entropy of x w^T without ever holding all logits. Rows are done in chunks whose
// size depends on the vocabulary alone: logits by dot_product, then each row becomes its own gradient in
// place, then dx and dw by outer_product, dw summed over chunks in order.
//
// Rows of which nothing is wanted (prompts, padding) have no logits: the others are gathered, and what is found of them
// goes back to its place. No bit depends on it. A row of the logits and of dx has the same bits whatever the other
// rows; where there are sums over rows, dw and db, the logits' gradients go back to their places among zeros, so that
// the sums have all their terms in the same order.
#include <algorithm>
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
  size_t logits = 0, nll, slopes, list, x, z, product, bytes;
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
    list = slopes + (softcap ? size_t(threads) * round_up(vocab * sizeof(float), 64) : 0);
    x = list + round_up((rows + 1) * sizeof(int32_t), 64);
    z = x + round_up(chunk * width * sizeof(float), 64);
    product = z + round_up(chunk * added * sizeof(float), 64);
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
    clear_unwanted();
    if (ctx_.thread == 0) list_wanted();
    ctx_.barrier();
    for (size_t begin = 0, first = 0; begin < rows_;) {
      if (begin > 0) ctx_.barrier();  // the previous chunk's logits are still read
      const Chunk c = chunk(begin, first);
      loss += compute(c);
      begin = c.end, first = c.last;
    }
    if (ctx_.thread == 0 && loss_) *loss_ = float(loss);
  }

 private:
  // Rows from `begin` to before `end`. Those from `first` to before `last` in the list have logits.
  struct Chunk {
    size_t begin, end, first, last;
    size_t rows() const { return last - first; }
    bool all() const { return rows() == end - begin; }
  };

  float* logits() const { return reinterpret_cast<float*>(workspace_ + space_.logits); }
  float* nll() const { return reinterpret_cast<float*>(workspace_ + space_.nll); }  // of a chunk's rows
  float* slopes() const {                                                           // of this thread
    return reinterpret_cast<float*>(workspace_ + space_.slopes +
                                    size_t(ctx_.thread) * round_up(vocab_ * sizeof(float), 64));
  }
  bool has_target(size_t i) const { return targets_[i] >= 0 && size_t(targets_[i]) < vocab_; }
  bool counts(size_t i) const { return has_target(i) && weight_[i] != 0; }

  // Is there anything to be computed of a row?
  bool wanted(size_t i) const { return nll_ ? has_target(i) : counts(i); }
  bool sums() const { return dw_ || db_; }

  // Results of the rows that are not wanted.
  void clear_unwanted() const {
    const Range mine = ctx_.share(int64_t(rows_));
    for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i) {
      if (targets_[i] >= 0 && !has_target(i)) ctx_.report(KernelFault::target, int64_t(i), targets_[i]);
      if (wanted(i)) continue;
      if (nll_) nll_[i] = 0;
      if (dx_) std::fill_n(dx_ + i * width_, width_, 0.0f);
      if (dz_) std::fill_n(dz_ + i * added_, added_, 0.0f);
    }
  }
  // The list of the others, and how many they are.
  void list_wanted() const {
    int32_t n = 0;
    for (size_t i = 0; i < rows_; ++i)
      if (wanted(i)) list()[++n] = int32_t(i);
    list()[0] = n;
  }
  int32_t* list() const { return reinterpret_cast<int32_t*>(workspace_ + space_.list); }
  size_t listed(size_t at) const { return size_t(list()[1 + at]); }

  // Without sums over rows, a chunk has as many of the list as fit.
  Chunk chunk(size_t begin, size_t first) const {
    const size_t most = chunk_rows(vocab_), count = size_t(list()[0]);
    if (!sums()) {
      const size_t last = std::min(first + most, count);
      if (last == first) return {begin, rows_, first, last};
      return {listed(first), last == count ? rows_ : listed(last), first, last};
    }
    const size_t end = std::min(begin + most, rows_);
    const int32_t *from = list() + 1 + first, *to = list() + 1 + count;
    return {begin, end, first, first + size_t(std::lower_bound(from, to, int32_t(end)) - from)};
  }

  // Returns what the chunk adds to the loss.
  double compute(const Chunk& c) const {
    if (c.rows() > 0) compute_rows(c);
    if (sums() && !c.all()) put_back(c), ctx_.barrier();
    if (dw_) compute_dw(c.begin, c.end - c.begin);
    if (dw_ && db_) ctx_.barrier();  // both share work out, and the workspace
    if (db_) compute_db(c.begin, c.end - c.begin);
    double loss = 0;
    if (ctx_.thread == 0)
      for (size_t i = 0; i < c.rows(); ++i)
        if (const size_t at = listed(c.first + i); counts(at)) loss += double(weight_[at]) * double(nll()[i]);
    return loss;
  }
  // Terms and gradients of rows, and the logits' gradients.
  void compute_rows(const Chunk& c) const {
    const float *x = x_ + c.begin * width_, *z = z_ ? z_ + c.begin * added_ : nullptr;
    float *dx = dx_ ? dx_ + c.begin * width_ : nullptr, *dz = dz_ ? dz_ + c.begin * added_ : nullptr;
    if (!c.all()) {
      gather(c, x_, width_, few_x()), x = few_x();
      if (z_) gather(c, z_, added_, few_z()), z = few_z();
      // Nothing is read there any more once there are logits.
      if (dx_) dx = few_x();
      if (dz_) dz = few_z();
      ctx_.barrier();
    }
    compute_logits(x, c.rows());
    if (z_) ctx_.barrier(), add_to_logits(z, c.rows());
    ctx_.barrier();
    const Range mine = ctx_.share(int64_t(c.rows()));
    for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i) {
      const size_t at = listed(c.first + i);
      nll()[i] = row(at, logits() + i * vocab_);
      if (nll_) nll_[at] = nll()[i];
    }
    ctx_.barrier();
    if (dx_) compute_dx(dx, c.rows()), ctx_.barrier();
    // In f32 whatever the other products are, as db: they are narrow.
    if (dz_) compute_dz(dz, c.rows()), ctx_.barrier();
    if (c.all()) return;
    if (dx_) scatter(c, dx, width_, dx_);
    if (dz_) scatter(c, dz, added_, dz_);
  }

  float* few_x() const { return reinterpret_cast<float*>(workspace_ + space_.x); }
  float* few_z() const { return reinterpret_cast<float*>(workspace_ + space_.z); }
  void gather(const Chunk& c, const float* from, size_t width, float* to) const {
    const Range mine = ctx_.share(int64_t(c.rows()));
    for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i)
      std::copy_n(from + listed(c.first + i) * width, width, to + i * width);
  }
  void scatter(const Chunk& c, const float* from, size_t width, float* to) const {
    const Range mine = ctx_.share(int64_t(c.rows()));
    for (size_t i = size_t(mine.begin); i < size_t(mine.end); ++i)
      std::copy_n(from + i * width, width, to + listed(c.first + i) * width);
  }
  // The logits' gradients to their places in the chunk, from the last on, with zeros between them. Each thread has some
  // columns of all.
  void put_back(const Chunk& c) const {
    const Range mine = ctx_.share(int64_t(vocab_));
    const size_t columns = size_t(mine.size());
    float* at = logits() + mine.begin;
    for (size_t to = c.end - c.begin, from = c.rows(); to-- > 0;) {
      if (from > 0 && listed(c.first + from - 1) == c.begin + to)
        --from, std::copy_n(at + from * vocab_, from == to ? 0 : columns, at + to * vocab_);
      else
        std::fill_n(at + to * vocab_, columns, 0.0f);
    }
  }

  // The row's term; its logits become their gradient, which is zero where the row does not count.
  float row(size_t i, float* logits) const {
    const bool gradient = dx_ || dw_ || dz_ || db_;
    const bool with_gradient = gradient && counts(i);
    if (softcap_ > 0) softcap_row(logits, vocab_, softcap_, with_gradient ? slopes() : nullptr);
    const float nll = xent_row(logits, vocab_, size_t(targets_[i]), weight_[i], with_gradient);
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
  void compute_logits(const float* x, size_t rows) const {
    if (is_quantized(w_.dtype))
      return exact_product({.x = x,
                            .w = w_.as<std::byte>(),
                            .w_type = w_.dtype,
                            .rows = rows,
                            .outs = vocab_,
                            .k = width_,
                            .y = logits()},
                           ctx_, workspace_ + space_.product);
    if constexpr (kBf16) {
      const OuterProduct p{
          .a = {x, width_, 1}, .b = {w_.data, 1, width_}, .m = rows, .n = vocab_, .k = width_, .c = logits()};
      return product(p);
    }
    const DotProduct p{
        .x = x, .w = w_.data, .w_type = w_.dtype, .rows = rows, .outs = vocab_, .k = width_, .y = logits()};
    dot_product(p, ctx_, workspace_ + space_.product);
  }
  void add_to_logits(const float* z, size_t rows) const {
    dot_product({.x = z, .w = b_, .rows = rows, .outs = vocab_, .k = added_, .acc = logits(), .y = logits()}, ctx_,
                workspace_ + space_.product);
  }
  void compute_dz(float* dz, size_t rows) const {
    outer_product({.a = {logits(), vocab_, 1}, .b = {b_, added_, 1}, .m = rows, .n = added_, .k = vocab_, .c = dz},
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
  void compute_dx(float* dx, size_t rows) const {
    if (is_quantized(w_.dtype))
      return exact_grad_x({.dy = logits(),
                           .w = w_.as<std::byte>(),
                           .w_type = w_.dtype,
                           .rows = rows,
                           .outs = vocab_,
                           .ins = width_,
                           .dx = dx},
                          ctx_, workspace_ + space_.product);
    const OuterProduct p{.a = {logits(), vocab_, 1},
                         .b = {w_.data, width_, 1},
                         .b_type = w_.dtype,
                         .m = rows,
                         .n = width_,
                         .k = vocab_,
                         .c = dx};
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

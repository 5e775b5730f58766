// Depthwise causal convolution along the rows of each sequence, its gradient and its state.
//   in  x:[N,C] w:[C,W] b?:[C] tail?:[S,W-1,C] seq,pos:[N]   out y:[N,C]
//
// An element is one fma chain, from its bias (or 0) over the taps from the oldest to the newest; what lies before
// position 0 takes no part. So its bits do not depend on how a sequence was cut into calls, nor on the other rows.
// Error, with u = 2^-24: (W + 1) u of |b| + sum |w x| (each term may be rounded apart), dx likewise; dw and db: (66 +
// N/64) u of their terms.
#define TOY_TARGET_FILE "backend/cpu/causal_conv.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/conv_tail.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kChannels = 256;  // of one work item: its filters and sums stay in the first-level cache
constexpr int kTaps = 4;            // that one pass over an output takes

struct Tap {
  const float *w, *x;
};

// y = from + sum of the taps, in their order. from: nullptr for zeros, may be y.
template <int kCount>
void add_taps(const Tap* taps, const float* from, float* y, int64_t n) {
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR {
    VF sum = from ? io.load(from + i) : hn::Zero(kF32);
#pragma GCC unroll 4
    for (int t = 0; t < kCount; ++t) sum = hn::MulAdd(io.load(taps[t].w + i), io.load(taps[t].x + i), sum);
    io.store(sum, y + i);
  });
}

// Any number of taps, some at a time: an f32 that is stored and loaded again is the same f32.
class Chain {
 public:
  Chain(const float* from, float* y, int64_t n) : from_(from), y_(y), n_(n) {}
  void add(const Tap& tap) {
    taps_[count_++] = tap;
    if (count_ == kTaps) flush();
  }
  void flush() {
    static_assert(kTaps == 4);
    switch (count_) {
      case 0:
        if (from_ != y_) add_taps<0>(taps_, from_, y_, n_);
        break;
      case 1:
        add_taps<1>(taps_, from_, y_, n_);
        break;
      case 2:
        add_taps<2>(taps_, from_, y_, n_);
        break;
      case 3:
        add_taps<3>(taps_, from_, y_, n_);
        break;
      default:
        add_taps<4>(taps_, from_, y_, n_);
    }
    from_ = y_;
    count_ = 0;
  }

 private:
  Tap taps_[kTaps];
  int count_ = 0;
  const float* from_;
  float* y_;
  int64_t n_;
};

// wt[i][c] = w[c][i], the work of all threads; a barrier is to follow.
void transpose_filters(const ExecContext& ctx, const View& w, float* wt) {
  const int64_t C = w.shape[0], W = w.shape[1];
  const Range tiles = ctx.share(div_up(C, kChannels));
  for (int64_t c = tiles.begin * kChannels; c < HWY_MIN(C, tiles.end * kChannels); ++c)
    for (int64_t i = 0; i < W; ++i) wt[i * C + c] = w.as<const float>()[c * W + i];
}

// Channels [at, at + count) of one row of y.
void conv_row(const SequenceRows& rows, int64_t n, int64_t at, int64_t count, const KernelArgs& args, const float* wt) {
  const int64_t C = args.in[0].shape[1], W = args.in[1].shape[1], here = rows.before(n, W - 1);
  const float *x = args.in[0].as<const float>(), *b = args.in[2].data ? args.in[2].as<const float>() + at : nullptr;
  const ConvTail tail(args.in[3]);
  Chain chain(b, args.out[0].as<float>() + n * C + at, count);
  for (int64_t i = 0; i < W; ++i)
    if (const float* from = conv_input(rows, n, W - 1 - i, here, x, C, tail)) chain.add({wt + i * C + at, from + at});
  chain.flush();
}

void causal_conv(const ExecContext& ctx, const KernelArgs& args) {
  const SequenceRows rows(args.in[4], args.in[5]);
  const ConvTail tail(args.in[3]);
  const int64_t C = args.in[0].shape[1], N = rows.count, tiles = div_up(C, kChannels);
  float* wt = reinterpret_cast<float*>(args.workspace);
  transpose_filters(ctx, args.in[1], wt);
  ctx.barrier();
  const Range items = ctx.share(div_up(N, kRowChunk) * tiles);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t begin = item / tiles * kRowChunk, at = item % tiles * kChannels, count = HWY_MIN(kChannels, C - at);
    for (int64_t n = begin; n < HWY_MIN(N, begin + kRowChunk); ++n) {
      if (tail.serves(rows.seq[n])) {
        conv_row(rows, n, at, count, args, wt);
        continue;
      }
      if (ctx.error) ctx.error->set("causal_conv: row {} has sequence {}", n, rows.seq[n]);
      std::memset(args.out[0].as<float>() + n * C + at, 0, size_t(count) * sizeof(float));
    }
  }
}

// ---- gradient

// to += a b
void add_products(const float* a, const float* b, float* to, int64_t n) {
  for_each_vector(n, [&](auto io, int64_t i)
                         HWY_ATTR { io.store(hn::MulAdd(io.load(a + i), io.load(b + i), io.load(to + i)), to + i); });
}
void add_to(const float* a, float* to, int64_t n) {
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Add(io.load(a + i), io.load(to + i)), to + i); });
}

// What the rows of one chunk give channels [at, at + count): dx, and the parts of dw (W rows of C) and db (one).
void grad_item(const ExecContext& ctx, const KernelArgs& args, Range chunk, int64_t at, int64_t count, const float* wt,
               float* part) {
  const SequenceRows rows(args.in[4], args.in[5]);
  const ConvTail tail(args.in[3]);
  const int64_t C = args.in[0].shape[1], W = args.in[1].shape[1];
  const float *x = args.in[0].as<const float>(), *dy = args.in[2].as<const float>() + at;
  for (int64_t i = 0; part && i <= W; ++i) std::memset(part + i * C + at, 0, size_t(count) * sizeof(float));
  for (int64_t n = chunk.begin; n < chunk.end; ++n) {
    const bool known = tail.serves(rows.seq[n]);
    if (!known && ctx.error) ctx.error->set("causal_conv_grad: row {} has sequence {}", n, rows.seq[n]);
    const int64_t here = rows.before(n, W - 1), behind = known ? rows.behind(n, W - 1) : -1;
    Chain dx(nullptr, args.out[0].as<float>() + n * C + at, count);
    for (int64_t i = W - 1 - behind; i < W; ++i) dx.add({wt + i * C + at, dy + (n + W - 1 - i) * C});
    dx.flush();
    if (!part || !known) continue;
    for (int64_t i = 0; i < W; ++i)
      if (const float* from = conv_input(rows, n, W - 1 - i, here, x, C, tail))
        add_products(dy + n * C, from + at, part + i * C + at, count);
    add_to(dy + n * C, part + W * C + at, count);
  }
}

// Chunks of rows in their order: dw[c][i] and db[c] of this thread's channels.
void add_parts(const ExecContext& ctx, const float* parts, int64_t chunks, int64_t C, int64_t W, float* dw, float* db) {
  const Range tiles = ctx.share(div_up(C, kChannels));
  for (int64_t at = tiles.begin * kChannels; at < HWY_MIN(C, tiles.end * kChannels); at += kChannels) {
    const int64_t count = HWY_MIN(kChannels, C - at);
    for (int64_t i = 0; i <= W; ++i) {
      float sums[kChannels] = {};
      for (int64_t k = 0; k < chunks; ++k) add_to(parts + (k * (W + 1) + i) * C + at, sums, count);
      for (int64_t c = 0; c < count; ++c) {
        if (i < W && dw) dw[(at + c) * W + i] = sums[c];
        if (i == W && db) db[at + c] = sums[c];
      }
    }
  }
}

void causal_conv_grad(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t N = args.in[0].shape[0], C = args.in[0].shape[1], W = args.in[1].shape[1];
  float *dw = args.out[1].as<float>(), *db = args.out[2].as<float>();
  float *wt = reinterpret_cast<float*>(args.workspace), *parts = dw || db ? wt + C * W : nullptr;
  transpose_filters(ctx, args.in[1], wt);
  ctx.barrier();
  const int64_t chunks = div_up(N, kRowChunk), tiles = div_up(C, kChannels);
  const Range items = ctx.share(chunks * tiles);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t chunk = item / tiles, at = item % tiles * kChannels, begin = chunk * kRowChunk;
    grad_item(ctx, args, {begin, HWY_MIN(N, begin + kRowChunk)}, at, HWY_MIN(kChannels, C - at), wt,
              parts ? parts + chunk * (W + 1) * C : nullptr);
  }
  if (!parts) return;
  ctx.barrier();
  add_parts(ctx, parts, chunks, C, W, dw, db);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(causal_conv);
HWY_EXPORT(causal_conv_grad);

size_t filters(const KernelQuery& q) noexcept { return size_t(q.in[1].shape.count()) * sizeof(float); }

size_t grad_workspace(const KernelQuery& q) noexcept {
  if (!q.out[1].present && !q.out[2].present) return filters(q);
  const int64_t C = q.in[1].shape[0], W = q.in[1].shape[1], chunks = div_up(q.in[0].shape[0], kRowChunk);
  return filters(q) + size_t(chunks * (W + 1) * C) * sizeof(float);
}

// The last M inputs of each run: what is left of the old tail moves forward, new rows come behind. A thread does some
// of the channels of all runs. Moving goes from old to new, so nothing is overwritten before it is read.
void conv_append(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const SequenceRows rows(args.in[2], args.in[3]);
  const int64_t S = args.in[0].shape[0], M = args.in[0].shape[1], C = args.in[0].shape[2];
  const Range mine = share_elements(ctx, C);
  const float* x = args.in[1].as<const float>() + mine.begin;
  const size_t bytes = size_t(mine.size()) * sizeof(float);
  for (int64_t n = 0; n < rows.count; ++n) {
    if (rows.behind(n, 1) > 0) continue;                              // not the last row of its run
    const int64_t seq = rows.seq[n], length = rows.before(n, M) + 1;  // as far as it matters
    if (seq < 0 || seq >= S) {
      if (ctx.error) ctx.error->set("conv_append: row {} has sequence {}", n, seq);
      continue;
    }
    float* tail = args.out[0].as<float>() + seq * M * C + mine.begin;
    for (int64_t j = 0; j < M; ++j) {
      const int64_t back = M - 1 - j;
      if (rows.pos[n] < back)
        std::memset(tail + j * C, 0, bytes);
      else
        std::memcpy(tail + j * C, back < length ? x + (n - back) * C : tail + (j + length) * C, bytes);
    }
  }
}

}  // namespace

KernelRecord causal_conv_kernel() {
  return {.op = "causal_conv", .workspace = filters, .run = best_of<HWY_DISPATCH_TABLE(causal_conv)>};
}
KernelRecord causal_conv_grad_kernel() {
  return {.op = "causal_conv_grad", .workspace = grad_workspace, .run = best_of<HWY_DISPATCH_TABLE(causal_conv_grad)>};
}
KernelRecord conv_append_kernel() { return {.op = "conv_append", .in_place = {{0, 0}}, .run = conv_append}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE

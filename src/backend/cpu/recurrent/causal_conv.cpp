// Depthwise causal convolution along the rows of each sequence, its gradient and its state.
//   in  x:[N,C] w:[C,W] b?:[C] tail?:[S,W-1,C] seq,pos:[N]   out y:[N,C]
//
// An element is one fma chain, from its bias (or 0) over the taps from the oldest to the newest; what lies before
// position 0 takes no part. So its bits do not depend on how a sequence was cut into calls, nor on the other rows.
// Error, with u = 2^-24: (W + 1) u of |b| + sum |w x| (each term may be rounded apart), dx likewise; dw and db: (66 +
// N/64) u of their terms.
//
// All three are the same correlation, y_j = sum over k of a_k x_(j+k):
//   y    j: rows of a run, k: taps          a = w    x = inputs
//   dx   j: rows, from the last, k: taps    a = w    x = dy, from the last
//   dw   j: taps, k: rows of a chunk        a = dy   x = inputs
// Its operands are panels of 16 channels, so a filter may be as long as the sequence and still be read from the
// first-level cache.
#define TOY_TARGET_FILE "backend/cpu/recurrent/causal_conv.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/recurrent/causal_conv.h"
#include "backend/cpu/transpose-inl.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// ---- the correlation

constexpr int kBlock = HWY_ARCH_X86 && HWY_TARGET != HWY_AVX3 ? 6 : 8;  // sums and inputs that fit the registers
static_assert(kBlock <= kConvPad);
constexpr int64_t kSteps = 64;  // whose operands stay in the first-level cache

// y_j += sum of a_k x_(j+k) over `steps` k, for kBlock j of a vector of channels. Each input is loaded once.
HWY_NOINLINE void correlate_block(int64_t steps, const float* HWY_RESTRICT a, const float* HWY_RESTRICT x,
                                  float* HWY_RESTRICT y) {
  VF sum[kBlock], in[kBlock];
  for (int j = 0; j < kBlock; ++j) sum[j] = hn::LoadU(kF32, y + j * 16);
  for (int j = 0; j + 1 < kBlock; ++j) in[j] = hn::LoadU(kF32, x + j * 16);
  for (; steps >= kBlock; steps -= kBlock, a += kBlock * 16, x += kBlock * 16) {
#pragma GCC unroll 8
    for (int k = 0; k < kBlock; ++k) {
      in[(k + kBlock - 1) % kBlock] = hn::LoadU(kF32, x + (k + kBlock - 1) * 16);
      const VF by = hn::LoadU(kF32, a + k * 16);
#pragma GCC unroll 8
      for (int j = 0; j < kBlock; ++j) sum[j] = hn::MulAdd(by, in[(k + j) % kBlock], sum[j]);
    }
  }
  for (; steps > 0; --steps, a += 16, x += 16) {
    const VF by = hn::LoadU(kF32, a);
    for (int j = 0; j < kBlock; ++j) sum[j] = hn::MulAdd(by, hn::LoadU(kF32, x + j * 16), sum[j]);
  }
  for (int j = 0; j < kBlock; ++j) hn::StoreU(sum[j], kF32, y + j * 16);
}

// y_j += sum over k of a_k x_(j+k), in the order of k < steps, for j < count: of x only what is not before row `first`.
// There are kConvPad rows behind the last of x and y.
void correlate(int64_t count, int64_t steps, int64_t first, const float* a, const float* x, float* y) {
  const auto start = [&](int64_t j) { return std::clamp<int64_t>(first - j, 0, steps); };
  for (int64_t j = 0; j < count; ++j)  // what a row may take, but the first of its block may not
    for (int64_t k = start(j); k < start(j / kBlock * kBlock); ++k)
      for (int64_t c = 0; c < 16; c += kLanes)
        hn::StoreU(hn::MulAdd(hn::LoadU(kF32, a + k * 16 + c), hn::LoadU(kF32, x + (j + k) * 16 + c),
                              hn::LoadU(kF32, y + j * 16 + c)),
                   kF32, y + j * 16 + c);
  for (int64_t begin = 0; begin < steps; begin += kSteps)
    for (int64_t j = 0; j < count; j += kBlock) {
      const int64_t k = HWY_MAX(begin, start(j)), left = HWY_MIN(steps, begin + kSteps) - k;
      for (int64_t c = 0; left > 0 && c < 16; c += kLanes)
        correlate_block(left, a + k * 16 + c, x + (j + k) * 16 + c, y + j * 16 + c);
    }
}

// ---- panels

// Channels [0, n) of a row to its place in a panel, zeros up to 16; and back.
void pack16(const float* from, int64_t n, float* to) {
  for (int64_t c = 0; c < 16; c += kLanes)
    hn::StoreU(n - c >= kLanes ? hn::LoadU(kF32, from + c)
               : n > c         ? FirstLanes{n - c}.load(from + c)
                               : hn::Zero(kF32),
               kF32, to + c);
}
void unpack16(const float* from, int64_t n, float* to) {
  for_each_vector(n, [&](auto io, int64_t c) HWY_ATTR { io.store(hn::LoadU(kF32, from + c), to + c); });
}

// Rows [begin, end) of a tile of channels, from where `row` says, to its panels. Rows up to kConvPad behind are zeros.
template <class Row>
void pack_panels(int64_t begin, int64_t end, int64_t channels, const ConvPanels& to, const Row& row) {
  for (int64_t r = begin; r < end; ++r) {
    const float* from = row(r);
    for (int64_t c = 0; c < channels; c += 16) pack16(from + c, channels - c, to.panel(c) + r * 16);
  }
  for (int64_t c = 0; c < channels; c += 16) std::memset(to.panel(c) + end * 16, 0, kConvPad * 16 * sizeof(float));
}

// Filters as panels [W][16], the work of all threads; a barrier is to follow.
void pack_filters(const ExecContext& ctx, const ConvCall& x, float* wt) {
  const Range panels = ctx.share(div_up(x.C, 16));
  for (int64_t c = panels.begin * 16; c < HWY_MIN(x.C, panels.end * 16); c += 16)
    transpose(x.w + c * x.W, x.W, HWY_MIN(16, x.C - c), x.W, wt + c * x.W, 16);
}

// ---- forward, and the gradient of x

constexpr int64_t kShort = 8, kShortTile = 256;
int64_t tile_of(const ConvCall& x) { return x.W <= kShort ? kShortTile : kConvTile; }

// A run of `count` rows of a tile: inputs from row(r), of which none are before `first`, outputs to out(j).
template <class Row, class Out>
void filter_rows(const ConvCall& x, int64_t count, int64_t at, int64_t first, const float* wt, const float* bias,
                 const ConvScratch& ws, const Row& row, const Out& out) {
  const int64_t channels = HWY_MIN(kConvTile, x.C - at);
  pack_panels(HWY_MAX(0, first), x.W - 1 + count, channels, ws.x, row);
  for (int64_t c = 0; c < channels; c += 16) {
    const int64_t n = HWY_MIN(16, channels - c);
    float* y = ws.y.panel(0);
    std::memset(y, 0, size_t((count + kConvPad) * 16) * sizeof(float));
    for (int64_t j = 0; bias && j < count; ++j) pack16(bias + at + c, n, y + j * 16);
    correlate(count, x.W, first, wt + (at + c) * x.W, ws.x.panel(c), y);
    for (int64_t j = 0; j < count; ++j) unpack16(y + j * 16, n, out(j) + at + c);
  }
}

// Rows that a short filter takes at once: with all their taps, or one.
constexpr int kRows = 4;
int64_t rows_at(int64_t j, int64_t count, int64_t first) { return first <= j && j + kRows <= count ? kRows : 1; }

// kCount rows of y, of taps [start, W). in: of the first row's taps, and those behind them.
template <int kCount>
void filter_short(int64_t channels, int64_t W, int64_t start, const float* const* in, const float* wt,
                  const float* bias, float* const* y) {
  for_each_vector(channels, [&](auto io, int64_t c) HWY_ATTR {
    VF sum[kCount];
    for (int r = 0; r < kCount; ++r) sum[r] = bias ? io.load(bias + c) : hn::Zero(kF32);
    const float* w = wt + c / 16 * 16 * W + c % 16;
    for (int64_t i = start; i < W; ++i) {
      const VF tap = hn::LoadU(kF32, w + i * 16);
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) sum[r] = hn::MulAdd(tap, io.load(in[i + r] + c), sum[r]);
    }
    for (int r = 0; r < kCount; ++r) io.store(sum[r], y[r] + c);
  });
}

// The same as filter_rows() for a short filter, from where the inputs are.
template <class Row, class Out>
void filter_rows_short(const ConvCall& x, int64_t count, int64_t at, int64_t first, const float* wt, const float* bias,
                       const Row& row, const Out& out) {
  const int64_t channels = HWY_MIN(kShortTile, x.C - at);
  for (int64_t j = 0, rows; j < count; j += rows) {
    rows = rows_at(j, count, first);
    const int64_t start = HWY_MAX(0, first - j);
    const float* in[kShort + kRows];
    float* y[kRows];
    for (int64_t i = start; i < x.W + rows - 1; ++i) in[i] = row(j + i);
    for (int64_t r = 0; r < rows; ++r) y[r] = out(j + r) + at;
    (rows == 1 ? filter_short<1> : filter_short<kRows>)(channels, x.W, start, in, wt + at * x.W,
                                                        bias ? bias + at : nullptr, y);
  }
}

template <class Row, class Out>
void filter(const ConvCall& x, int64_t count, int64_t at, int64_t first, const float* wt, const float* bias,
            const ConvScratch& ws, const Row& row, const Out& out) {
  if (x.W <= kShort)
    filter_rows_short(x, count, at, first, wt, bias, row, out);
  else
    filter_rows(x, count, at, first, wt, bias, ws, row, out);
}

// Calls f(begin, end, channel) for pieces of runs of at most 64 rows and tiles of channels: this thread's.
template <class F>
void for_each_piece(const ExecContext& ctx, const ConvCall& x, const F& f) {
  const int64_t tile = tile_of(x), tiles = div_up(x.C, tile);
  const Range items = ctx.share(div_up(x.N, kRowChunk) * tiles);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t begin = item / tiles * kRowChunk;
    x.for_each_run(begin, HWY_MIN(x.N, begin + kRowChunk),
                   [&](int64_t n, int64_t end) { f(n, end, item % tiles * tile); });
  }
}

// Rows whose sequence has no tail are reported and give zeros.
bool has_tail(const ExecContext& ctx, const ConvCall& x, int64_t n, int64_t end, int64_t at, float* y) {
  if (x.tail.serves(x.rows.seq[n])) return true;
  ctx.report(KernelFault::sequence, n, x.rows.seq[n]);
  for (; n < end; ++n) std::memset(y + n * x.C + at, 0, size_t(HWY_MIN(tile_of(x), x.C - at)) * sizeof(float));
  return false;
}

void causal_conv(const ExecContext& ctx, const KernelArgs& args) {
  const ConvCall x(args, 3);
  const float* bias = args.in[2].data ? args.in[2].as<const float>() : nullptr;
  float *y = args.out[0].as<float>(), *wt = reinterpret_cast<float*>(args.workspace);
  const ConvScratch ws(wt + x.filters(), x.W, ctx.thread);
  pack_filters(ctx, x, wt);
  ctx.barrier();
  for_each_piece(ctx, x, [&](int64_t n, int64_t end, int64_t at) {
    if (!has_tail(ctx, x, n, end, at, y)) return;
    const auto input = x.inputs(n);
    filter(
        x, end - n, at, x.W - 1 - input.available(), wt, bias, ws, [&](int64_t r) { return input(r - x.W + 1) + at; },
        [&](int64_t j) { return y + (n + j) * x.C; });
  });
}

// dx_t = sum over taps of w_i dy_(t+W-1-i)
void grad_inputs(const ExecContext& ctx, const ConvCall& x, const float* dy, float* dx, const float* wt,
                 const ConvScratch& ws) {
  for_each_piece(ctx, x, [&](int64_t n, int64_t end, int64_t at) {
    if (!has_tail(ctx, x, n, end, at, dx)) return;
    const int64_t last = end - 1, later = x.rows.behind(last, x.W - 1);
    filter(
        x, end - n, at, x.W - 1 - later, wt, nullptr, ws,
        [&](int64_t r) { return dy + (last + x.W - 1 - r) * x.C + at; },
        [&](int64_t j) { return dx + (last - j) * x.C; });
  });
}

// ---- gradients of the filters

// to += from
void add_to(const float* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += kLanes)
    hn::StoreU(hn::Add(hn::LoadU(kF32, to + i), hn::LoadU(kF32, from + i)), kF32, to + i);
}

// part: rows of kConvTile channels, of taps [start, W) and of the bias.
template <int kCount>
void grad_short(int64_t channels, int64_t W, int64_t start, const float* const* in, const float* const* dy,
                float* part) {
  for_each_vector(channels, [&](auto io, int64_t c) HWY_ATTR {
    VF d[kCount];
    for (int r = 0; r < kCount; ++r) d[r] = io.load(dy[r] + c);
    for (int64_t i = start; i < W; ++i) {
      VF sum = hn::LoadU(kF32, part + i * kConvTile + c);
#pragma GCC unroll 4
      for (int r = 0; r < kCount; ++r) sum = hn::MulAdd(d[r], io.load(in[i + r] + c), sum);
      hn::StoreU(sum, kF32, part + i * kConvTile + c);
    }
    VF sum = hn::LoadU(kF32, part + W * kConvTile + c);
    for (int r = 0; r < kCount; ++r) sum = hn::Add(sum, d[r]);
    hn::StoreU(sum, kF32, part + W * kConvTile + c);
  });
}

// dw of a short filter and db, for the channels of a tile: over the rows of each chunk, then the chunks.
void grad_filters_short(const ConvCall& x, const float* dy, int64_t at, float* dw, float* db) {
  constexpr int64_t kFloats = (kShort + 1) * kConvTile;
  const int64_t channels = HWY_MIN(kConvTile, x.C - at), W = x.W;
  HWY_ALIGN float total[kFloats] = {};
  for (int64_t begin = 0; begin < x.N; begin += kRowChunk) {
    HWY_ALIGN float part[kFloats] = {};
    x.for_each_run(begin, HWY_MIN(x.N, begin + kRowChunk), [&](int64_t n, int64_t end) {
      if (!x.tail.serves(x.rows.seq[n])) return;
      const auto input = x.inputs(n);
      const int64_t first = W - 1 - input.available();
      for (int64_t j = 0, rows; j < end - n; j += rows) {
        rows = rows_at(j, end - n, first);
        const int64_t start = HWY_MAX(0, first - j);
        const float *in[kShort + kRows], *of[kRows];
        for (int64_t i = start; i < W + rows - 1; ++i) in[i] = input(j + i - W + 1) + at;
        for (int64_t r = 0; r < rows; ++r) of[r] = dy + (n + j + r) * x.C + at;
        (rows == 1 ? grad_short<1> : grad_short<kRows>)(channels, W, start, in, of, part);
      }
    });
    add_to(part, (W + 1) * kConvTile, total);
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; dw && i < W; ++i) dw[(at + c) * W + i] = total[i * kConvTile + c];
    if (db) db[at + c] = total[W * kConvTile + c];
  }
}

// dw of `taps` taps from `tap` on, and db, in the same order.
void grad_filters(const ConvCall& x, const float* dy, int64_t tap, int64_t taps, int64_t at, float* dw, float* db,
                  const ConvScratch& ws) {
  const int64_t channels = HWY_MIN(kConvTile, x.C - at), size = taps * 16;
  HWY_ALIGN float bias[kConvTile] = {};
  for (int64_t c = 0; c < channels; c += 16) std::memset(ws.total.panel(c), 0, size_t(size) * sizeof(float));
  for (int64_t begin = 0; begin < x.N; begin += kRowChunk) {
    for (int64_t c = 0; c < channels; c += 16)
      std::memset(ws.y.panel(c), 0, size_t(size + kConvPad * 16) * sizeof(float));
    HWY_ALIGN float bias_part[kConvTile] = {};
    x.for_each_run(begin, HWY_MIN(x.N, begin + kRowChunk), [&](int64_t n, int64_t end) {
      if (!x.tail.serves(x.rows.seq[n])) return;
      const auto input = x.inputs(n);
      const int64_t first = x.W - 1 - tap - input.available(), count = end - n;
      pack_panels(HWY_MAX(0, first), count + taps - 1, channels, ws.x,
                  [&](int64_t r) { return input(r + tap - x.W + 1) + at; });
      pack_panels(0, count, channels, ws.dy, [&](int64_t r) { return dy + (n + r) * x.C + at; });
      for (int64_t c = 0; c < channels; c += 16) {
        correlate(taps, count, first, ws.dy.panel(c), ws.x.panel(c), ws.y.panel(c));
        for (int64_t r = 0; tap == 0 && r < count; ++r) add_to(ws.dy.panel(c) + r * 16, 16, bias_part + c);
      }
    });
    for (int64_t c = 0; c < channels; c += 16) add_to(ws.y.panel(c), size, ws.total.panel(c));
    add_to(bias_part, kConvTile, bias);
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; dw && i < taps; ++i)
      dw[(at + c) * x.W + tap + i] = ws.total.panel(c / 16 * 16)[i * 16 + c % 16];
    if (db && tap == 0) db[at + c] = bias[c];
  }
}

void causal_conv_grad(const ExecContext& ctx, const KernelArgs& args) {
  const ConvCall x(args, 3);
  const float* dy = args.in[2].as<const float>();
  float *dw = args.out[1].as<float>(), *db = args.out[2].as<float>(), *wt = reinterpret_cast<float*>(args.workspace);
  const ConvScratch ws(wt + x.filters(), x.W, ctx.thread);
  pack_filters(ctx, x, wt);
  ctx.barrier();
  grad_inputs(ctx, x, dy, args.out[0].as<float>(), wt, ws);
  if (!dw && !db) return;
  const int64_t blocks = div_up(x.W, kConvTaps);
  const Range items = ctx.share(div_up(x.C, kConvTile) * blocks);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t tap = item % blocks * kConvTaps;
    if (x.W <= kShort)
      grad_filters_short(x, dy, item * kConvTile, dw, db);
    else
      grad_filters(x, dy, tap, HWY_MIN(kConvTaps, x.W - tap), item / blocks * kConvTile, dw, db, ws);
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(causal_conv);
HWY_EXPORT(causal_conv_grad);

size_t workspace(const KernelQuery& q) noexcept {
  const int64_t W = q.in[1].shape[1], C = q.in[1].shape[0];
  return size_t(div_up(C, 16) * 16 * W + q.threads * ConvScratch::floats(W)) * sizeof(float);
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
      ctx.report(KernelFault::sequence, n, seq);
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
  return {.op = "causal_conv", .workspace = workspace, .code = best_of<HWY_DISPATCH_TABLE(causal_conv)>};
}
KernelRecord causal_conv_grad_kernel() {
  return {.op = "causal_conv_grad", .workspace = workspace, .code = best_of<HWY_DISPATCH_TABLE(causal_conv_grad)>};
}
KernelRecord conv_append_kernel() { return {.op = "conv_append", .in_place = {{0, 0}}, .code = conv_append}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE

// Which rows a causal convolution reads, and the memory of its kernels. Plain code, the same for every target.
#pragma once

#include "backend/cpu/attention/sequence_rows.h"
#include "backend/cpu/gemm/tiles.h"

namespace toy::cpu {

/// Inputs before a run: [S,M,C], oldest first; `data` is nullptr where a graph keeps none.
struct ConvTail {
  const float* data;
  int64_t sequences, M;

  explicit ConvTail(const View& v)
      : data(v.data ? v.as<const float>() : nullptr), sequences(data ? v.shape[0] : 0), M(data ? v.shape[1] : 0) {}
  bool serves(int64_t seq) const { return !data || (seq >= 0 && seq < sequences); }
};

/// Operands of one call: N rows, C channels, filters of W taps.
struct ConvCall {
  int64_t N, C, W;
  const float *x, *w;
  SequenceRows rows;
  ConvTail tail;

  /// x and w are the first inputs; tail, seq and pos those from `at` on.
  ConvCall(const KernelArgs& args, size_t at)
      : N(args.in[0].shape[0]),
        C(args.in[0].shape[1]),
        W(args.in[1].shape[1]),
        x(args.in[0].as<const float>()),
        w(args.in[1].as<const float>()),
        rows(args.in[at + 1], args.in[at + 2]),
        tail(args.in[at]) {}
  /// Numbers of the filters in panels of 16 channels.
  int64_t filters() const { return div_up(C, 16) * 16 * W; }

  /// The inputs of a run around its row n: in the batch from `here` rows before it on, in the tail further back.
  struct Inputs {
    const ConvCall& call;
    int64_t n, here;

    /// How many there are before row n, at most W - 1.
    int64_t available() const {
      return call.tail.data ? std::max(here, std::min<int64_t>(call.W - 1, call.rows.pos[n])) : here;
    }
    /// Row n + ahead, which is not before the available ones.
    const float* operator()(int64_t ahead) const {
      if (-ahead <= here) return call.x + (n + ahead) * call.C;
      return call.tail.data + (call.rows.seq[n] * call.tail.M + call.tail.M + ahead + here) * call.C;
    }
  };
  Inputs inputs(int64_t n) const { return {*this, n, rows.before(n, W - 1)}; }

  /// Calls f(n, end) for the runs of rows [begin, end).
  template <class F>
  void for_each_run(int64_t begin, int64_t end, const F& f) const {
    for (int64_t n = begin, next; n < end; n = next) {
      next = n + 1 + rows.behind(n, end - 1 - n);
      f(n, next);
    }
  }
};

/// Channels of a work item, taps whose gradients are one, and the rows of zeros at the end of a panel.
inline constexpr int64_t kConvTile = 64, kConvTaps = 64, kConvPad = 8;

/// The channels of a tile: panels of `rows` rows of 16 channels.
struct ConvPanels {
  float* at;
  int64_t rows;
  float* panel(int64_t channel) const { return at + channel * rows; }
};

/// One thread's memory.
struct ConvScratch {
  ConvPanels x, y, dy, total;

  static int64_t floats(int64_t W) { return (rows(W) + 3 * (kRowChunk + kConvPad)) * kConvTile; }
  ConvScratch(float* memory, int64_t W, int64_t thread) {
    static_assert(kConvTaps <= kRowChunk);
    memory += thread * floats(W);
    x = {memory, rows(W)}, memory += rows(W) * kConvTile;
    for (ConvPanels* p : {&y, &dy, &total}) *p = {memory, kRowChunk + kConvPad}, memory += p->rows * kConvTile;
  }

 private:
  static int64_t rows(int64_t W) { return std::max(W, kConvTaps) - 1 + kRowChunk + kConvPad; }
};

}  // namespace toy::cpu

// Operands and memory of the gradient of the gated delta rule. Plain code, the same for every target.
#pragma once

#include "backend/cpu/recurrent/gated_delta.h"

namespace toy::cpu {

/// Tokens whose gradients are made together, and those between two states that are kept.
inline constexpr int64_t kDeltaChunk = 16, kDeltaSegment = 16 * kDeltaChunk;

/// Where the gradients of a row and head go.
struct DeltaOut {
  float *dq, *dk, *dv, *dg, *dbeta;
  int64_t part_ld;  ///< of dq and dk
};

/// The gradients of one call.
struct DeltaGrad {
  const float *d_o, *ds;
  float *dq, *dk, *dv, *dg, *dbeta, *ds0, *dq_part, *dk_part;

  /// In front of the threads' memory: parts of dq and dk, one for each value head, where heads share keys.
  static int64_t floats(const DeltaSizes& x) { return x.H == x.K ? 0 : padded16(2 * x.N * x.H * x.P); }
  DeltaGrad(const DeltaCall& x, const KernelArgs& args, float* memory)
      : d_o(args.in[6].data ? args.in[6].as<const float>() : nullptr),
        ds(args.in[7].data ? args.in[7].as<const float>() : nullptr),
        dq(args.out[0].as<float>()),
        dk(args.out[1].as<float>()),
        dv(args.out[2].as<float>()),
        dg(args.out[3].as<float>()),
        dbeta(args.out[4].as<float>()),
        ds0(x.s0 && args.out[5].data ? args.out[5].as<float>() : nullptr),
        dq_part(x.H == x.K ? dq : memory),
        dk_part(x.H == x.K ? dk : memory + x.N * x.H * x.P) {}
  DeltaOut rows(const DeltaCall& x, int64_t row, int64_t h) const {
    const int64_t head = row * x.H + h, part = x.H == x.K ? row * x.K + x.key_head(h) : head;
    return {dq_part + part * x.P, dk_part + part * x.P,
            dv + head * x.V,      dg + head * (x.vector_gate ? x.P : 1),
            dbeta + head,         x.H * x.P};
  }
};

/// A matrix in panels of 64 columns, one after the other: a panel of 128 rows lies in the first-level cache, without
/// the conflicts of long rows. The number of columns is a multiple of 16.
struct PanelMatrix {
  float* at = nullptr;
  int64_t rows = 0, cols = 0;

  int64_t size() const { return rows * cols; }
  /// The panel that begins at a column, and the length of its rows.
  float* panel(int64_t col) const { return at + col * rows; }
  int64_t ld(int64_t col) const { return std::min(kMostColumns, cols - col); }
  /// Element (i, j).
  float& operator()(int64_t i, int64_t j) const {
    const int64_t col = j / kMostColumns * kMostColumns;
    return panel(col)[i * ld(col) + j - col];
  }
};

/// The matrices of a chunk: rows of wk (P rounded up to 16) or wv (V rounded up to 16) numbers. The numbers after P
/// and V are zeros.
struct DeltaChunk {
  int64_t wk, wv;
  float *k, *q, *a, *x, *w, *x_key, *w_key, *key, *dq, *dk, *dg, *inter, *ext;  ///< wk wide
  float *d, *z, *both;                                                          ///< wv wide; both = [dO; F]
  float *P, *N, *pairs;                                                         ///< 16 wide
  float *k_t, *both_t, *d_t, *inter_t, *ext_t;                                  ///< transposed: 32 or 16 wide
  PanelMatrix g;                                                                ///< gradient of the state, [P][wv]
};

/// One thread's memory.
struct DeltaScratch {
  float* e;              ///< the errors of all tokens, wv wide
  float *kept, *states;  ///< PanelMatrix [P][wv]: before each segment, and after all chunks of one but the last
  DeltaChunk chunk;

  static int64_t floats(const DeltaSizes& x) { return DeltaScratch(nullptr, x).size_; }
  DeltaScratch(float* memory, const DeltaSizes& x) : memory_(memory) {
    DeltaChunk& c = chunk;
    const int64_t wk = c.wk = padded16(x.P), wv = c.wv = padded16(x.V), C = kDeltaChunk, state = x.P * wv;
    e = take(x.N * wv);
    kept = take(div_up(x.N, kDeltaSegment) * state);
    states = take(std::min(div_up(x.N, C), kDeltaSegment / C) * state);
    for (float** rows : {&c.k, &c.q, &c.a, &c.x, &c.w, &c.w_key, &c.dq, &c.dk, &c.dg, &c.ext}) *rows = take(C * wk);
    for (float** rows : {&c.x_key, &c.inter}) *rows = take(2 * C * wk);
    c.key = take(wk);
    c.d = take(C * wv), c.z = take(C * wv), c.both = take(2 * C * wv);
    c.P = take(2 * C * C), c.N = c.P + C * C, c.pairs = take(2 * C * C);
    c.k_t = take(C * wk);
    c.both_t = take(2 * C * x.V), c.d_t = take(C * x.V), c.inter_t = take(2 * C * x.P), c.ext_t = take(C * x.P);
    c.g = {take(state), x.P, wv};
  }

 private:
  float* take(int64_t n) {
    float* const at = memory_ ? memory_ + size_ : nullptr;
    size_ += padded16(n);
    return at;
  }
  float* memory_;
  int64_t size_ = 0;
};

}  // namespace toy::cpu

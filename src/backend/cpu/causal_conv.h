// Which rows a causal convolution reads. Plain code, the same for every target.
#pragma once

#include "backend/cpu/sequence_rows.h"

namespace toy::cpu {

/// Inputs before a run: [S,M,C], oldest first; `data` is nullptr where a graph keeps none.
struct ConvTail {
  const float* data;
  int64_t sequences, M;

  explicit ConvTail(const View& v)
      : data(v.data ? v.as<const float>() : nullptr), sequences(data ? v.shape[0] : 0), M(data ? v.shape[1] : 0) {}
  bool serves(int64_t seq) const { return !data || (seq >= 0 && seq < sequences); }
};

/// What lies `back` rows before row n, of which `here` (counted as far as `back`) are in the batch; nullptr: nothing.
inline const float* conv_input(const SequenceRows& rows, int64_t n, int64_t back, int64_t here, const float* x,
                               int64_t C, const ConvTail& tail) {
  if (back <= here) return x + (n - back) * C;
  if (!tail.data || rows.pos[n] < back) return nullptr;
  return tail.data + (rows.seq[n] * tail.M + tail.M - (back - here)) * C;
}

}  // namespace toy::cpu

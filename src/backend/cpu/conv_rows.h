// Which rows a causal convolution reads. Plain code, the same for every target.
#pragma once

#include <algorithm>
#include <cstdint>

#include "toy/backend/kernel.h"

namespace toy::cpu {

/// Rows of a batch: row n follows row n - 1 when both are of one sequence and their positions are neighbours.
struct ConvRows {
  const int32_t *seq, *pos;
  int64_t count;

  ConvRows(const View& seq_in, const View& pos_in)
      : seq(seq_in.as<const int32_t>()), pos(pos_in.as<const int32_t>()), count(seq_in.shape[0]) {}
  bool follows(int64_t n) const { return seq[n - 1] == seq[n] && pos[n - 1] + 1 == pos[n]; }
  /// Rows of its run in front of row n, at most `most`.
  int64_t before(int64_t n, int64_t most) const {
    int64_t k = 0;
    while (k < most && n - k > 0 && follows(n - k)) ++k;
    return k;
  }
  /// Rows of its run behind row n, at most `most`.
  int64_t behind(int64_t n, int64_t most) const {
    int64_t k = 0;
    while (k < most && n + k + 1 < count && follows(n + k + 1)) ++k;
    return k;
  }
};

/// Inputs before a run: [S,M,C], oldest first; `data` is nullptr where a graph keeps none.
struct ConvTail {
  const float* data;
  int64_t sequences, M, C;

  explicit ConvTail(const View& v)
      : data(v.data ? v.as<const float>() : nullptr),
        sequences(data ? v.shape[0] : 0),
        M(data ? v.shape[1] : 0),
        C(data ? v.shape[2] : 0) {}
  bool serves(int64_t seq) const { return !data || (seq >= 0 && seq < sequences); }
};

/// What lies `back` rows before row n, of which `here` (counted as far as `back`) are in the batch; nullptr: nothing.
inline const float* conv_input(const ConvRows& rows, int64_t n, int64_t back, int64_t here, const float* x, int64_t C,
                               const ConvTail& tail) {
  if (back <= here) return x + (n - back) * C;
  if (!tail.data || rows.pos[n] < back) return nullptr;
  return tail.data + (rows.seq[n] * tail.M + tail.M - (back - here)) * C;
}

}  // namespace toy::cpu

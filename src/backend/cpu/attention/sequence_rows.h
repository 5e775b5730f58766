// Rows of a batch by their sequences and positions. Plain code, the same for every target.
#pragma once

#include <cstdint>

#include "toy/backend/host_kernel.h"

namespace toy::cpu {

/// Operand i of a kernel, i32[N], or nullptr where it is absent.
inline const int32_t* optional_ids(const KernelArgs& args, size_t i) {
  return args.in.size() > i ? args.in[i].as<const int32_t>() : nullptr;
}

/// Row n follows row n - 1, in one run, when both are of one sequence and their positions are neighbours.
struct SequenceRows {
  const int32_t *seq, *pos;
  int64_t count;

  SequenceRows(const View& seq_in, const View& pos_in)
      : seq(seq_in.as<const int32_t>()), pos(pos_in.as<const int32_t>()), count(seq_in.shape[0]) {}
  bool follows(int64_t n) const { return seq[n - 1] == seq[n] && pos[n - 1] + 1 == pos[n]; }
  /// The first row behind the run that row n belongs to.
  int64_t run_end(int64_t n) const {
    do ++n;
    while (n < count && follows(n));
    return n;
  }
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

}  // namespace toy::cpu

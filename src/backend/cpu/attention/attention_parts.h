// Decoding few sequences: the keys of a row are shared out by chunks, whose parts of its sums wait here until all are
// there. Plain code, the same for every target.
#pragma once

#include "backend/cpu/attention/attention_tasks.h"

namespace toy::cpu {

/// Calls f(row, index) for every row that is a run of its own at one of the positions [0, positions).
template <class F>
void for_each_lone_row(const View& seq, const View& pos, int64_t positions, const F& f) {
  const SequenceRows rows(seq, pos);
  for (int64_t i = 0, end, index = 0; i < rows.count; i = end) {
    end = rows.run_end(i);
    if (end == i + 1 && can_split(rows.pos[i], positions)) f(i, index++);
  }
}

/// Memory for (o, l, m) of each such row, query head and chunk of keys.
struct Parts {
  float* memory;
  int64_t heads, chunks, stride, positions;
  int64_t most;  ///< rows there is memory for: more have tasks enough without

  static int64_t most_rows(const HeadSizes& h, int threads) {
    return threads == 1 ? 0 : std::min<int64_t>(h.rows, (4 * threads + h.kv_heads - 1) / h.kv_heads);
  }
  static int64_t chunks_of(int64_t pages) { return (pages * kKeyTile + kKeyChunk - 1) / kKeyChunk; }
  static int64_t stride_of(int64_t p) { return round_up16(p) + 16; }
  static int64_t floats(const HeadSizes& h, int64_t pages, int threads) {
    return most_rows(h, threads) * h.heads * chunks_of(pages) * stride_of(h.p);
  }

  Parts(const HeadSizes& h, int64_t pages, int threads, float* memory_in)
      : memory(memory_in),
        heads(h.heads),
        chunks(chunks_of(pages)),
        stride(stride_of(h.p)),
        positions(pages * kKeyTile),
        most(most_rows(h, threads)) {}
  /// The part of one row, query head and chunk: o, then l and m.
  float* at(int64_t row, int64_t head, int64_t chunk) const {
    return memory + ((row * heads + head) * chunks + chunk) * stride;
  }
  /// Is it worth it: are there lone rows, few of them, and one with several chunks?
  bool wanted(const View& seq, const View& pos) const {
    int64_t rows = 0, last = 0;
    for_each_lone_row(seq, pos, positions, [&](int64_t row, int64_t) {
      ++rows;
      last = std::max<int64_t>(last, pos.as<const int32_t>()[row]);
    });
    return rows <= most && last >= kKeyChunk;
  }
};

}  // namespace toy::cpu

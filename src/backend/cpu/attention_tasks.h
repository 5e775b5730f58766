// Work items of the attention kernels, and the sizes of their workspace. Plain code, the same for every
// target.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "toy/backend/kernel.h"

namespace toy::cpu {

/// Keys are visited in tiles of 64, aligned to position: a page of the cache is one tile.
inline constexpr int64_t kKeyTile = 64;
/// Rows that share a register tile.
inline constexpr int64_t kStrip = 6;

inline int64_t round_up16(int64_t n) { return (n + 15) / 16 * 16; }
/// Query positions that one task takes at most: about 384 rows of work for each packed key tile.
inline int64_t max_chunk(int64_t group) { return std::clamp<int64_t>(384 / group, 16, 128); }

/// Rows [row, row + count) of one sequence, at positions position, position + 1, ...; `first` is the position
/// at which their run begins in this batch, `first_row` its row.
struct Task {
  int64_t row = 0, count = 0;
  int32_t seq = 0;
  int64_t position = 0;
  int64_t first_row = 0, first = 0, run = 0;
  int64_t head = 0;
};

/// Walks over (run, chunk of its rows, head), later chunks first, and yields the items of one thread: each
/// goes to the thread with the least work so far, which every thread computes alike. Results never depend on
/// this choice.
class TaskWalk {
 public:
  static constexpr int kMaxThreads = 1024;

  TaskWalk(const ExecContext& ctx, const View& seq, const View& pos, int64_t heads, int64_t chunk, int64_t window)
      : seq_(seq.as<const int32_t>()),
        pos_(pos.as<const int32_t>()),
        rows_(seq.shape[0]),
        heads_(heads),
        chunk_(chunk),
        window_(window),
        thread_(ctx.thread),
        threads_(std::min(ctx.threads, kMaxThreads)) {
    std::fill_n(load_.begin(), threads_, 0.0);
    head_ = heads_;
  }

  /// The next item of this thread; false at the end.
  bool next(Task& task) {
    while (advance()) {
      const int64_t begin = std::max(run_begin_, chunk_end_ - chunk_);
      const int owner = int(std::min_element(load_.begin(), load_.begin() + threads_) - load_.begin());
      load_[owner] += cost(begin, chunk_end_);
      if (owner != thread_) continue;
      task.row = begin;
      task.count = chunk_end_ - begin;
      task.seq = seq_[begin];
      task.position = pos_[begin];
      task.first_row = run_begin_;
      task.first = pos_[run_begin_];
      task.run = run_end_ - run_begin_;
      task.head = head_;
      return true;
    }
    return false;
  }

 private:
  bool advance() {
    if (++head_ < heads_) return true;
    head_ = 0;
    if (chunk_end_ - chunk_ > run_begin_) {
      chunk_end_ -= chunk_;
      return true;
    }
    run_begin_ = run_end_;
    if (run_begin_ >= rows_ || heads_ == 0) return false;
    while (++run_end_ < rows_ && seq_[run_end_] == seq_[run_begin_] && pos_[run_end_] == pos_[run_end_ - 1] + 1) {
    }
    chunk_end_ = run_end_;
    return true;
  }
  // Rows times the keys that they see, and something for each tile that is fetched.
  double cost(int64_t begin, int64_t end) const {
    int64_t keys = int64_t(pos_[begin]) + int64_t(pos_[end - 1]) + 2;
    if (window_ > 0) keys = std::min(keys, 2 * window_);
    return double(keys) / 2 * double(end - begin + 2) + 100;
  }

  const int32_t *seq_, *pos_;
  int64_t rows_, heads_, chunk_, window_;
  int thread_, threads_;
  int64_t run_begin_ = 0, run_end_ = 0, chunk_end_ = 0, head_ = 0;
  std::array<double, kMaxThreads> load_;
};

/// Chunk length for this call: the largest one that leaves each thread a few items to balance with.
inline int64_t choose_chunk(const View& seq, const View& pos, int64_t heads, int64_t group, int threads) {
  const auto *s = seq.as<const int32_t>(), *p = pos.as<const int32_t>();
  const int64_t n = seq.shape[0];
  int64_t chunk = max_chunk(group);
  for (; chunk > 16; chunk /= 2) {
    int64_t items = 0;
    for (int64_t begin = 0, i = 1; i <= n; ++i) {
      if (i < n && s[i] == s[begin] && p[i] == p[i - 1] + 1) continue;
      items += (i - begin + chunk - 1) / chunk * heads;
      begin = i;
    }
    if (items >= 4 * int64_t(threads)) break;
  }
  return chunk;
}

/// One thread's state while it attends: query rows and their running maximum, sums and outputs, and packed
/// tiles.
struct AttendScratch {
  int64_t width;  ///< P rounded up to 16: the row stride of q, o and v
  float *q, *o, *l, *m, *kt, *v, *s;

  static int64_t floats(int64_t rows, int64_t p) {
    return rows * (2 * round_up16(p) + 16) + round_up16(rows) + kKeyTile * (p + round_up16(p)) + kStrip * kKeyTile;
  }
  AttendScratch(float* base, int64_t rows, int64_t p) : width(round_up16(p)) {
    q = base;
    o = q + rows * width;
    l = o + rows * width;
    m = l + rows * 16;
    kt = m + round_up16(rows);
    v = kt + kKeyTile * p;
    s = v + kKeyTile * width;
  }
};

}  // namespace toy::cpu

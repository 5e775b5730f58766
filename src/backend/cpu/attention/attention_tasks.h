// Work items of the attention kernels, and the sizes of their workspace. Plain code, the same for every
// target.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/attention/sequence_rows.h"
#include "toy/backend/host_kernel.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {

/// Keys are visited in tiles of 64, aligned to position: a page of the cache is one tile.
inline constexpr int64_t kKeyTile = kPagePositions;
/// Positions whose part of a row's sums is made in one piece (attention_tile-inl.h): aligned to position like the
/// tiles, the same for every way of cutting the work.
inline constexpr int64_t kKeyChunk = 8 * kKeyTile;
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
  int64_t key_chunk = -1;  ///< the one chunk of keys to do, of a row whose chunks are shared out; -1: all
  int64_t split = 0;       ///< number of such a row among those of the call
};

/// Sizes of an attention problem, from the shapes of q:[N,H,P] and of keys whose dimension 1 is K.
struct HeadSizes {
  int64_t rows, heads, kv_heads, p, group;

  HeadSizes(const Shape& q, const Shape& k) : rows(q[0]), heads(q[1]), kv_heads(k[1]), p(q[2]), group(q[1] / k[1]) {}
  /// Query rows of the largest task.
  int64_t chunk_rows() const { return max_chunk(group) * group; }
  /// Floats of one thread's AttendScratch.
  int64_t scratch_floats() const;
};

/// Does a row that is a run of its own stand at one of these positions? Then the chunks of its keys may be shared out.
inline bool can_split(int64_t pos, int64_t positions) { return pos >= 0 && pos < positions; }

/// Walks over (run, chunk of its rows, head), later chunks first as they see more keys, and for rows that stand alone
/// at one of `split` positions over the chunks of their keys. Yields the items of one thread, which claims each when it
/// is done with the one before. Results never depend on who does what. A barrier is between this and another use of
/// ThreadPool::claim().
class TaskWalk {
 public:
  TaskWalk(const ExecContext& ctx, const View& seq, const View& pos, int64_t heads, int64_t chunk, int64_t window,
           int64_t split = 0)
      : rows_(seq, pos),
        heads_(heads),
        chunk_(chunk),
        window_(window),
        split_(split),
        pool_(ctx.threads > 1 ? ctx.pool : nullptr) {
    head_ = heads_;
  }

  /// The next item of this thread; false at the end.
  bool next(Task& task) {
    for (const int64_t mine = pool_ ? pool_->claim() : passed_; advance();) {
      if (passed_++ != mine) continue;
      const int64_t begin = std::max(run_begin_, chunk_end_ - chunk_);
      task.row = begin;
      task.count = chunk_end_ - begin;
      task.seq = rows_.seq[begin];
      task.position = rows_.pos[begin];
      task.first_row = run_begin_;
      task.first = rows_.pos[run_begin_];
      task.run = run_end_ - run_begin_;
      task.head = head_;
      task.key_chunk = key_chunk_;
      task.split = splits_ - 1;
      return true;
    }
    return false;
  }

 private:
  bool advance() {
    if (++head_ < heads_) return true;
    head_ = 0;
    if (key_chunk_ > first_key_chunk_) {
      --key_chunk_;
      return true;
    }
    key_chunk_ = first_key_chunk_ = -1;
    if (chunk_end_ - chunk_ > run_begin_) {
      chunk_end_ -= chunk_;
      return true;
    }
    run_begin_ = run_end_;
    if (run_begin_ >= rows_.count || heads_ == 0) return false;
    run_end_ = rows_.run_end(run_begin_);
    chunk_end_ = run_end_;
    if (run_end_ - run_begin_ == 1 && can_split(rows_.pos[run_begin_], split_)) split_row(rows_.pos[run_begin_]);
    return true;
  }
  void split_row(int64_t pos) {
    ++splits_;
    key_chunk_ = pos / kKeyChunk;
    first_key_chunk_ = window_ > 0 ? std::max<int64_t>(0, pos - window_ + 1) / kKeyChunk : 0;
  }

  SequenceRows rows_;
  int64_t heads_, chunk_, window_;
  int64_t split_;
  ThreadPool* pool_;
  int64_t passed_ = 0;  // items so far, of all threads
  int64_t run_begin_ = 0, run_end_ = 0, chunk_end_ = 0, head_ = 0;
  int64_t key_chunk_ = -1, first_key_chunk_ = -1, splits_ = 0;
};

/// Chunk length for this call: the largest one that leaves each thread a few items to balance with.
inline int64_t choose_chunk(const View& seq, const View& pos, int64_t heads, int64_t group, int threads) {
  const SequenceRows rows(seq, pos);
  int64_t chunk = max_chunk(group);
  for (; chunk > 16; chunk /= 2) {
    int64_t items = 0;
    for (int64_t begin = 0, end; begin < rows.count; begin = end) {
      end = rows.run_end(begin);
      items += (end - begin + chunk - 1) / chunk * heads;
    }
    if (items >= 4 * int64_t(threads)) break;
  }
  return chunk;
}

/// One thread's state while it attends: query rows and their running maximum, sums and outputs, and packed
/// tiles.
struct AttendScratch {
  int64_t width;                       ///< P rounded up to 16: the row stride of q, o and v
  float *q, *o, *l, *m;                ///< of the chunk of keys at hand
  float *total_o, *total_l, *total_m;  ///< of the chunks before
  float *kt, *v, *s;

  static int64_t floats(int64_t rows, int64_t p) {
    return rows * (3 * round_up16(p) + 16) + 3 * round_up16(rows) + kKeyTile * (p + round_up16(p)) + kStrip * kKeyTile;
  }
  AttendScratch(float* base, int64_t rows, int64_t p) : width(round_up16(p)) {
    q = base;
    o = q + rows * width;
    l = o + rows * width;
    m = l + rows * 16;
    total_o = m + round_up16(rows);
    total_l = total_o + rows * width;
    total_m = total_l + round_up16(rows);
    kt = total_m + round_up16(rows);
    v = kt + kKeyTile * p;
    s = v + kKeyTile * width;
  }
};

inline int64_t HeadSizes::scratch_floats() const { return AttendScratch::floats(chunk_rows(), p); }

/// Bytes of all threads' scratch.
inline size_t attend_workspace(const KernelQuery& query) noexcept {
  const HeadSizes h(query.in[0].shape, query.in[1].shape);
  return size_t(h.scratch_floats() * query.threads) * sizeof(float);
}

}  // namespace toy::cpu

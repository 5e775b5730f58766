// The blocking of outer_product, without its vectors: which panels are packed when, and which tiles are computed from
// them. E says how a panel looks and computes a tile from two (f32 in gemm_outer.cpp, pairs of bf16 in gemm_bf16.cpp
// and gemm_amx.cpp):
//
//   Panel              32 bits: what a panel is made of; kPack consecutive k in one
//   kStep              panels are a multiple of kStep long (in Panels along k), the rest zeros
//   blocks(k)          how k is cut
//   kMR, kNV, kLanes   a tile is kMR rows by up to kNV vectors of kLanes columns
//   pack_transposed    of B: `rows` lines of `len` contiguous k (the last repeats up to `width`)
//   pack_straight      of B: `len` lines of k with `cols` contiguous values (what is beyond them is not used)
//   pack_a_...         likewise of A, kMR rows
//   micro_tile         C = init + A B for one tile; fetches lines meanwhile, evenly
//   kFetchesLines      are operands fetched ahead also where their k are lines apart?
//   kStepsAtOnce       Panels along k between two calls of Fetch::step()
//   kMacs              multiply-adds that a tile does while packing reads a value, about
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/lines_ahead.h"
#include "toy/base/threads.h"
#include "toy/tensor/quantize.h"

namespace toy::cpu {

constexpr size_t kHeldLines = 384;  // lines of the longest block of k, of the operand that is held; of a shorter, more

// Panels of one thread's workspace: a block of the operand that is held, and one panel of the one that streams by.
template <class E>
struct OuterSpace {
  size_t held, streamed;
  OuterSpace(size_t m, size_t n, size_t k) {
    const KBlocks all = E::blocks(k);
    const size_t len = round_up(ceil_div(std::min(all.len * all.count, longest()), E::kPack), E::kStep);
    constexpr size_t kWidest = std::max(E::kMR, E::kNV * E::kLanes);
    // Stores run past a panel's end, and the last panel of a block is whole.
    held = std::min(round_up(std::max(m, n), kWidest) * len, budget()) + kWidest * len + 64;
    streamed = kWidest * len + 64;
  }
  size_t bytes() const { return round_up(held * sizeof(uint32_t), 64) + round_up(streamed * sizeof(uint32_t), 64); }

  // Rows of A or columns of B that fit into what is held.
  static size_t fitting(size_t k) {
    const size_t longest_of_k = round_up(ceil_div(E::blocks(k).size(0), E::kPack), E::kStep);
    return budget() / std::max<size_t>(1, longest_of_k);
  }
  static size_t longest() { return E::blocks(size_t(1) << 20).len; }
  static size_t budget() { return kHeldLines * round_up(ceil_div(longest(), E::kPack), E::kStep); }
};

// One thread's part of C, and which operand it holds. `at_once` > 0: of the panels that stream by those that it claims,
// so many at a time.
struct OuterPart {
  Range rows, cols;
  bool holds_a = true;
  size_t at_once = 0;
};

// To this core alone: what another core has read or written before would be waited for at the store. The compiler has
// the instruction only for targets that are sure to have it; where a processor of 64 bits does not, it does nothing.
inline void fetch_for_store(const void* p) {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" : : "r"(p));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

// What is written when a tile is done: C, fetched for its stores a row at a time while the tile is computed (all
// together would take the core's buffers for misses while the first steps need them); or the arrays of a consumer,
// which reads them first, so that they are fetched a tile before, to L2: on their way to L1 they would hold those
// buffers, which this tile needs for its panels.
struct StoredLines {
  std::array<const float*, 3> at;  // the tile's first element; absent ones last
  size_t ld;
  bool read_later = false;
  template <size_t kWidth, size_t kEach = 16>
  void fetch_row(size_t row) const {
    for (const float* p : at) {
      if (!p) return;
#pragma GCC unroll 4
      for (size_t j = 0; j < kWidth; j += kEach)
        read_later ? __builtin_prefetch(p + row * ld + j, 0, 2) : fetch_for_store(p + row * ld + j);
    }
  }
};

// Where a tile starts from and goes to.
struct OuterTile {
  size_t width, rows, steps;
  const float* init;  // or absent
  size_t ld_init;
  float* c;
  size_t ldc;
  StoredLines stored;
};

// micro_tile of an E that has micro<MR, NV>(a, b, fetch, t) for tiles of MR <= kMR rows by NV <= kNV vectors.
template <class E, size_t NV = E::kNV, size_t MR = E::kMR>
void register_tile(const typename E::Panel* a, const typename E::Panel* b, const Fetch& fetch, const OuterTile& t) {
  if constexpr (NV > 1) {
    if (t.width < NV * E::kLanes) return register_tile<E, NV - 1, MR>(a, b, fetch, t);
  }
  if constexpr (MR > 1) {
    if (t.rows < MR) return register_tile<E, NV, MR - 1>(a, b, fetch, t);
  }
  E::template micro<MR, NV>(a, b, fetch, t);
}

// B in quantized blocks of 32 (outer_takes_blocks()).
struct Blocks {
  std::byte block;
};

// One thread's block of C. One operand is packed a block at a time and held in L2, the other streams by, each of its
// panels packed just before its use against all that is held.
template <class E, class T>
class OuterTask {
 public:
  OuterTask(const OuterProduct& p, const OuterPart& part, const TeamMember& team, std::byte* workspace)
      : p_(p),
        part_(part),
        team_(team),
        blocks_(E::blocks(p.k)),
        held_(reinterpret_cast<Panel*>(workspace)),
        streamed_(held_ + round_up(OuterSpace<E>(p.m, p.n, p.k).held, 16)) {}

  void run() {
    if (part_.holds_a)
      run_holding<Side::a>();
    else
      run_holding<Side::b>();
  }

 private:
  using Panel = typename E::Panel;
  enum class Side { a, b };
  static constexpr Side other(Side s) { return s == Side::a ? Side::b : Side::a; }
  static constexpr size_t kMR = E::kMR, kLanes = E::kLanes, kNV = E::kNV, kNR = kNV * kLanes;
  static_assert(sizeof(Panel) == 4);

  size_t steps(size_t kb) const { return round_up(ceil_div(blocks_.size(kb), E::kPack), E::kStep); }
  size_t fitting() const { return OuterSpace<E>::fitting(p_.k); }

  template <Side S>
  const Range& range() const {
    return S == Side::a ? part_.rows : part_.cols;
  }
  // Of the panel from `at` on. Columns are left in panels as equal as whole vectors allow, so that 64 columns are not
  // done as 48 and 48.
  template <Side S>
  size_t width_of(size_t at) const {
    if constexpr (S == Side::a) return kMR;
    const size_t vectors = ceil_div(size_t(part_.cols.end) - at, kLanes);
    return ceil_div(vectors, ceil_div(vectors, kNV)) * kLanes;
  }
  // Where the block that begins at `begin` ends: blocks are about equal.
  template <Side S>
  size_t block_end(size_t begin) const {
    const size_t all = size_t(range<S>().end) - begin, most = ceil_div(all, ceil_div(all, fitting()));
    size_t end = begin;
    while (end < begin + most) end += width_of<S>(end);
    return std::min(end, size_t(range<S>().end));
  }

  template <Side S>
  size_t panels(size_t begin, size_t end) const {
    size_t count = 0;
    for (size_t at = begin; at < end; at += width_of<S>(at)) ++count;
    return count;
  }

  template <Side S>
  bool along_k() const {
    if constexpr (S == Side::a) return p_.a.col_stride == 1;
    return p_.b.row_stride == 1 && p_.b.col_stride != 1;
  }
  // From one row of A or column of B to the next where k is contiguous, else from one k to the next; in values.
  template <Side S>
  size_t stride() const {
    if constexpr (S == Side::a) return along_k<S>() ? p_.a.row_stride : p_.a.col_stride;
    return along_k<S>() ? p_.b.col_stride : p_.b.row_stride;
  }
  // The values of row or column `at` of a block of k.
  template <Side S>
  auto source(size_t kb, size_t at) const {
    const size_t k = kb * blocks_.len;
    if constexpr (S == Side::a)
      return static_cast<const float*>(p_.a.data) + at * p_.a.row_stride + k * p_.a.col_stride;
    else if constexpr (std::is_same_v<T, Blocks>)
      return static_cast<const Blocks*>(p_.b.data) + bytes_of(p_.b_type, int64_t(k * p_.b.row_stride + at));
    else
      return static_cast<const T*>(p_.b.data) + k * p_.b.row_stride + at * p_.b.col_stride;
  }

  template <Side S>
  void pack(size_t at, size_t kb, Panel* out) const {
    const auto* p = source<S>(kb, at);
    const size_t len = blocks_.size(kb), width = width_of<S>(at), left = size_t(range<S>().end) - at;
    if constexpr (S == Side::a) {
      if (along_k<S>())
        E::pack_a_transposed(p, stride<S>(), left, len, out);
      else
        E::pack_a_straight(p, stride<S>(), left, len, out);
    } else if constexpr (std::is_same_v<T, Blocks>) {
      pack_blocks(p, at % 32, std::min(left, width), len, width, out);
    } else {
      if (along_k<S>())
        E::pack_transposed(p, stride<S>(), std::min(left, width), len, width, out);
      else
        E::pack_straight(p, stride<S>(), std::min(left, width), len, width, out);
    }
  }

  // `len` rows of B, of which `cols` values are taken, `skip` after the beginning of the block at p.
  void pack_blocks(const Blocks* p, size_t skip, size_t cols, size_t len, size_t width, Panel* out) const {
    constexpr size_t kRows = 16;
    alignas(64) float rows[kRows * round_up(31 + kNR, 32)];
    const size_t each = round_up(skip + cols, 32), stride = bytes_of(p_.b_type, int64_t(p_.b.row_stride));
    for (size_t k = 0; k < len; k += kRows, out += kRows * width) {
      const size_t n = std::min(kRows, len - k);
      dequantize_rows(p_.b_type, p + k * stride, stride, n, {rows, n * each});
      E::pack_straight(rows + skip, each, cols, n, width, out);
    }
  }

  // Rows or columns [begin, end) of a block of k.
  template <Side S>
  LinesAhead lines_of(size_t kb, size_t begin, size_t end) const {
    end = std::min(end, size_t(range<S>().end));
    if (begin >= end || p_.k == 0 || !(E::kFetchesLines || along_k<S>())) return {};
    const auto* p = source<S>(kb, begin);
    const size_t len = blocks_.size(kb);
    if constexpr (S == Side::b && std::is_same_v<T, Blocks>)
      return LinesAhead(p, bytes_of(p_.b_type, int64_t(p_.b.row_stride)), len,
                        bytes_of(p_.b_type, int64_t(round_up(end - begin, 32))));
    const size_t size = sizeof(*p);
    return along_k<S>() ? LinesAhead(p, stride<S>() * size, end - begin, len * size)
                        : LinesAhead(p, stride<S>() * size, len, (end - begin) * size);
  }

  // Goes along the panels that stream by against one block of what is held.
  template <Side S>
  class Stream {
   public:
    explicit Stream(const OuterTask& task)
        : task_(task),
          end_(size_t(task.range<S>().end)),
          count_(task.panels<S>(size_t(task.range<S>().begin), end_)),
          now_{0, size_t(task.range<S>().begin)} {
      if (claims()) go_to_next_claim(now_);
      look_ahead();
    }
    bool more() const { return now_.index < count_; }
    size_t at() const { return now_.at; }
    // Of the panel after this one; nothing where it is not known yet, or there is none.
    std::optional<size_t> next() const {
      return ahead_ && next_.index < count_ ? std::optional(next_.at) : std::nullopt;
    }
    // How many this thread will do, about, this one with them.
    size_t left() const { return claims() ? ceil_div(count_ - now_.index, size_t(threads())) : count_ - now_.index; }
    void advance() {
      if (!ahead_) step();
      now_ = next_;
      look_ahead();
    }

   private:
    struct PanelPlace {
      size_t index, at;
    };
    bool claims() const { return task_.part_.at_once > 0; }
    int threads() const { return task_.team_.threads; }
    // The next panel is claimed before this one is done, so that it can be fetched; but not the last ones, which are
    // for the thread that is done first.
    void look_ahead() {
      ahead_ =
          !claims() || now_.index + 1 < claim_end_ || now_.index + 2 * size_t(threads()) * task_.part_.at_once < count_;
      if (ahead_) step();
    }
    void step() {
      next_ = now_;
      if (claims() && now_.index + 1 >= claim_end_)
        go_to_next_claim(next_);
      else
        go_to(now_.index + 1, next_);
    }
    void go_to_next_claim(PanelPlace& place) {
      const size_t begin = size_t(task_.team_.pool->claim()) * task_.part_.at_once;
      claim_end_ = begin + task_.part_.at_once;
      go_to(std::min(begin, count_), place);
    }
    // Claims only grow.
    void go_to(size_t index, PanelPlace& place) const {
      for (; place.index < index; ++place.index) place.at += task_.width_of<S>(std::min(place.at, end_ - 1));
    }

    const OuterTask& task_;
    const size_t end_, count_;
    size_t claim_end_ = 0;
    PanelPlace now_, next_{};
    bool ahead_ = false;
  };

  template <Side kHeld>
  void run_holding() {
    constexpr Side kBy = other(kHeld);
    const size_t by0 = size_t(range<kBy>().begin), first = size_t(range<kHeld>().begin), last = range<kHeld>().end;
    for (size_t h0 = first, h1; h0 < last; h0 = h1) {
      h1 = block_end<kHeld>(h0);
      for (size_t kb = 0; kb < blocks_.count; ++kb) {
        const size_t tiles = panels<kHeld>(h0, h1);
        for (size_t h = h0; h < h1; h += width_of<kHeld>(h)) pack<kHeld>(h, kb, held_ + (h - h0) * steps(kb));
        // Who claims adds to what others began.
        if (part_.at_once > 0 && (h0 > first || kb > 0)) team_.barrier();
        const bool last_block = kb + 1 == blocks_.count;
        const size_t next_kb = last_block ? 0 : kb + 1, next_h = last_block ? h1 : h0;
        LinesAhead held_next =
            E::kFetchesLines ? lines_of<kHeld>(next_kb, next_h, last_block && h1 < last ? block_end<kHeld>(h1) : h1)
                             : LinesAhead();
        for (Stream<kBy> stream(*this); stream.more(); stream.advance()) {
          const size_t s = stream.at();
          pack<kBy>(s, kb, streamed_);
          const std::optional<size_t> next = stream.next();
          LinesAhead by_next = next            ? lines_of<kBy>(kb, *next, *next + width_of<kBy>(*next))
                               : next_h < last ? lines_of<kBy>(next_kb, by0, by0 + width_of<kBy>(by0))
                                               : LinesAhead();
          size_t share = ceil_div(held_next.left(), stream.left());
          const size_t each = ceil_div(by_next.left() + share, tiles);
          const Pace pace(each, steps(kb) / E::kStepsAtOnce);
          for (size_t h = h0; h < h1; h += width_of<kHeld>(h)) {
            Fetch fetch = by_next.take(each, pace);
            if (fetch.lines() == 0) {
              fetch = held_next.take(std::min(each, share), pace);
              share -= fetch.lines();
            }
            const Panel* panel = held_ + (h - h0) * steps(kb);
            const size_t after = h + width_of<kHeld>(h);
            const Corner here = corner<kHeld>(h, s);
            const Corner then = after < h1 ? corner<kHeld>(after, s) : next ? corner<kHeld>(h0, *next) : here;
            if constexpr (kHeld == Side::a)
              tile(here, then, kb, panel, streamed_, fetch);
            else
              tile(here, then, kb, streamed_, panel, fetch);
          }
        }
      }
    }
  }

  // Where a tile begins.
  struct Corner {
    size_t row, col;
  };
  template <Side kHeld>
  static Corner corner(size_t held, size_t streamed) {
    return kHeld == Side::a ? Corner{held, streamed} : Corner{streamed, held};
  }

  // `then`: the tile that this thread does next, if it is known.
  void tile(Corner here, Corner then, size_t kb, const Panel* a, const Panel* b, const Fetch& fetch) const {
    const auto [r, j] = here;
    const size_t width = width_of<Side::b>(j), n = std::min<size_t>(width, part_.cols.end - j), ld = p_.n;
    const size_t ld_init = kb == 0 ? p_.init_stride() : ld, rows = std::min<size_t>(kMR, part_.rows.end - r);
    if (p_.consumer) return consumed_tile(here, then, a, b, fetch, {width, rows, steps(kb)}, n);
    const float* init = kb == 0 ? p_.init : p_.c;
    const float* from = init ? init + r * ld_init + j : nullptr;
    float* to = p_.c + r * ld + j;
    const StoredLines stored{{to}, ld};
    if (n == width) return E::micro_tile(a, b, fetch, {width, rows, steps(kb), from, ld_init, to, ld, stored});
    alignas(64) float c[kMR * kNR], c_init[kMR * kNR];
    for (size_t i = 0; from && i < rows; ++i) std::copy(from + i * ld_init, from + i * ld_init + n, c_init + i * width);
    E::micro_tile(a, b, fetch, {width, rows, steps(kb), from ? c_init : nullptr, width, c, width, stored});
    for (size_t i = 0; i < rows; ++i) std::copy(c + i * width, c + i * width + n, to + i * ld);
  }

  // Likewise, for a consumer. `n` columns of the tile are there. What the consumer touches is fetched one tile ahead,
  // as it is waited for at once.
  void consumed_tile(Corner here, Corner then, const Panel* a, const Panel* b, const Fetch& fetch, OuterTile t,
                     size_t n) const {
    alignas(64) float c[kMR * kNR];
    t.c = c, t.ldc = t.width;
    t.stored = {p_.consumer->touches, p_.n, true};
    for (const float*& p : t.stored.at)
      if (p) p += then.row * p_.n + then.col;
    E::micro_tile(a, b, fetch, t);
    p_.consumer->use(*p_.consumer, {c, t.ldc, here.row, here.col, t.rows, n});
  }

  const OuterProduct& p_;
  const OuterPart& part_;
  const TeamMember& team_;
  const KBlocks blocks_;
  Panel *held_, *streamed_;
};

// Cycles per k of a block of C: a multiply-add each 1/kMacs, and packing about 0.3 a line. What is held is packed while
// nothing else is done, so it counts twice; each block of it meets all that streams by.
constexpr double kPacking = 0.3;
template <class E>
double cost_of_holding(size_t held, size_t streamed, size_t k) {
  return kPacking * double(2 * held + streamed * ceil_div(held, OuterSpace<E>::fitting(k)));
}

// Fixed parts: the team as a grid over C, whichever leaves a thread the least to do. A wrong cut cost 25% of 576 x 576
// by 64 rows.
template <class E>
OuterPart fixed_part(const OuterProduct& p, const TeamMember& team, double& least) {
  const int threads = team.threads;
  const size_t tiles_m = ceil_div(p.m, E::kMR), tiles_n = ceil_div(p.n, E::kLanes);
  int best = 1;
  bool holds_a = true;
  for (int parts = 1; parts <= threads; ++parts) {
    if (threads % parts) continue;
    const size_t m = std::min(p.m, ceil_div(tiles_m, size_t(parts)) * E::kMR);
    const size_t n = std::min(p.n, ceil_div(tiles_n, size_t(threads / parts)) * E::kLanes);
    const double a = cost_of_holding<E>(m, n, p.k), b = cost_of_holding<E>(n, m, p.k);
    const double cost = double(m) * double(n) / double(E::kMacs) + std::min(a, b);
    if (parts == 1 || cost < least) best = parts, least = cost, holds_a = a <= b;
  }
  const auto cut = [](size_t total, size_t tiles, size_t unit, int i, int parts) {
    const Range r = part(int64_t(tiles), i, parts);
    return Range{r.begin * int64_t(unit), std::min(r.end * int64_t(unit), int64_t(total))};
  };
  const int across = threads / best;
  return {cut(p.m, tiles_m, E::kMR, team.thread / across, best),
          cut(p.n, tiles_n, E::kLanes, team.thread % across, across), holds_a};
}

// Every thread holds the same operand, and the panels of the other are claimed. That costs packing, and half of what is
// claimed at once, waiting for the last. A little more than fixed parts cost is made good as soon as the cores are not
// equally fast.
template <class E>
OuterPart outer_part(const OuterProduct& p, const TeamMember& team) {
  double fixed = 0;
  const OuterPart part = fixed_part<E>(p, team, fixed);
  if (team.threads == 1) return part;
  constexpr double kClaim = 20'000;  // cycles: a claim is small beside so much work
  constexpr size_t kNR = E::kNV * E::kLanes;
  const double products = double(p.m) * double(p.n) / double(E::kMacs * team.threads);
  const size_t fit = OuterSpace<E>::fitting(p.k), k = std::min(p.k, E::blocks(p.k).len);
  OuterPart shared{{0, int64_t(p.m)}, {0, int64_t(p.n)}};
  double least = 0;
  for (const bool holds_a : {true, false}) {
    const size_t held = holds_a ? p.m : p.n, streamed = holds_a ? p.n : p.m, width = holds_a ? kNR : E::kMR;
    const double panel = double(std::min(held, fit) * std::min(width, streamed)) / double(E::kMacs);
    const size_t at_once = size_t(std::ceil(kClaim / (panel * double(std::max<size_t>(1, k)))));
    const double waits = 0.5 * panel * double(at_once) * double(ceil_div(held, fit));
    const double cost = products + cost_of_holding<E>(held, ceil_div(streamed, size_t(team.threads)), p.k) + waits;
    if (least == 0 || cost < least) least = cost, shared.holds_a = holds_a, shared.at_once = at_once;
  }
  constexpr double kWorthIt = 1.04;  // products that cost 1.05 were slower, also beside a busy core
  return least <= kWorthIt * fixed ? shared : part;
}

// This thread's part of a product whose B is made of T. The workspace is the team's.
template <class E, class T>
void outer_task(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  const OuterPart mine = outer_part<E>(p, team);
  if (mine.rows.size() == 0 || mine.cols.size() == 0) return;
  OuterTask<E, T>(p, mine, team, workspace + size_t(team.thread) * OuterSpace<E>(p.m, p.n, p.k).bytes()).run();
}

}  // namespace toy::cpu

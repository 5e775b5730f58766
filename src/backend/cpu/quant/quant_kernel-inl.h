// The product of quant.h for one instruction set: panels of weights, and tiles of rows that pass by them; few rows need
// no panel. An `Isa` is defined by the file that includes this.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cpu/quant/quant_isa.h"
#include "backend/cpu/quant/quant_types-inl.h"

namespace toy::cpu {
namespace {

constexpr size_t kManyRows = 16;   // from here on arithmetic takes longer than memory
constexpr size_t kFetchRows = 64;  // from here on lines for the next panel come in time if they are fetched with tiles
constexpr size_t kSplitRows = 12;  // from here on a SplitPanel pays (measured)

// Products of bytes are summed in 16 bits first.
template <class Isa>
concept HasPairs = requires(typename Isa::V v) {
  Isa::add_pairs(v, v);
};

// Dot products of many rows at once: Isa::add_tiles() computes what QuantTask::tile() does.
template <class Isa>
concept HasTiles = requires {
  Isa::kHasTiles;
};

// Step `step` of N: sum += w x, 4 k in each lane. Pairs of products are at most 2 * 128 * kMost, so that some steps of
// them may be added up in 16 bits first: in `run`.
template <class Isa, class T, unsigned N, bool kSigned = T::kSigned, class V>
[[gnu::always_inline]] inline void add_step(unsigned step, V w, V x, V& run, V& sum) {
  constexpr unsigned kRun = HasPairs<Isa> ? std::clamp(32767u / (2 * 128 * T::kMost), 1u, std::min(N, 8u)) : 1;
  static_assert(N % kRun == 0);
  if constexpr (kRun > 1) {
    const V more = Isa::template pairs<kSigned>(w, x);
    run = step % kRun == 0 ? more : Isa::add_pairs(run, more);
    if ((step + 1) % kRun == 0) sum = Isa::add(sum, Isa::sum_pairs(run));
  } else {
    sum = Isa::template dot<kSigned>(sum, w, x);
  }
}

// A panel of signed bytes for instructions that multiply unsigned by signed ones. A negative weight -a becomes a, and
// its x becomes ~x: -a x = a ~x + a. The sum of these a begins the sum of each row. Any pipe inverts bits; only those
// that multiply change signs.
template <class Isa>
struct SplitPanel : Panel<Isa> {
  typename Isa::V negative[kMostChunk / 4];  // bytes of ones where a weight is negative
  typename Isa::V begin[kMostChunk / 32];    // of each run of 32
  void split(size_t steps) {
    const auto first = Isa::set1(std::bit_cast<uint32_t>(kRounder));
    for (size_t s = 0; s < steps; ++s) {
      auto& w = this->q[s];
      negative[s] = Isa::negative_bytes(w), w = Isa::magnitudes(w);
      const auto more = Isa::sum_pairs(Isa::template pairs<false>(Isa::and_(w, negative[s]), Isa::set1(0x01010101)));
      begin[s / 8] = Isa::add(s % 8 == 0 ? first : begin[s / 8], more);
    }
  }
};

// What blocks of 256 become for MR rows of x: their bytes are multiplied at once, and wait in no panel.
template <class Isa, class T, int MR>
struct RunDots : Scales<Isa> {
  using V = typename Isa::V;
  static constexpr unsigned kSteps = T::kRun / 4;

  const int8_t* x;                    // of the block
  const int32_t* correction;          // of its runs
  V sum[MR][4], pairs[MR][4];         // of the runs that are mixed
  V dot[T::kBlock / T::kRun][MR][1];  // of all runs

  [[gnu::always_inline]] inline void put(int number, int at, V w) {
    const unsigned step = unsigned(at) % kSteps, run = unsigned(at) / kSteps;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      uint32_t four;
      std::memcpy(&four, x + 4 * (at * MR + i), 4);
      V& own = sum[i][number];
      if (step == 0) own = Isa::set1(uint32_t(correction[run * MR + unsigned(i)]));
      add_step<Isa, T, kSteps>(step, w, Isa::set1(four), pairs[i][number], own);
      if (step == kSteps - 1) dot[run][i][0] = own;
    }
  }
};

template <class Isa, class T>
class QuantTask {
  using V = typename Isa::V;
  using F = typename Isa::F;
  static constexpr int kGroups = 2;  // vectors of outputs
  static constexpr size_t kStrip = size_t(kGroups) * Isa::kLanes, kRuns = T::kBlock / T::kRun;

 public:
  explicit QuantTask(const QuantPart& part) : p_(*part.p), x_(part.x), part_(part) {}

  // A strip begins earlier where it would end behind the last output; p_.outs is at least a strip.
  void strip(size_t s) {
    from_ = s * kStrip, first_ = std::min(from_, p_.outs - kStrip);
    const size_t row_bytes = p_.k / T::kBlock * T::kBytes;
    const auto* w = reinterpret_cast<const uint8_t*>(p_.w);
    if (p_.repacked) {
      w += from_ * row_bytes;
      StreamRows<Isa, T> rows[kGroups];
      for (size_t g = 0; g < kGroups; ++g) rows[g] = {w + g * Isa::kLanes * row_bytes};
      few_or_many(rows);
    } else {
      w += first_ * row_bytes;
      BlockRows<Isa, T> rows[kGroups];
      for (size_t g = 0; g < kGroups; ++g)
        rows[g] = {w + g * Isa::kLanes * row_bytes, row_bytes, Isa::multiples(uint32_t(row_bytes))};
      many(rows, s + 1 < p_.outs / kStrip ? w + kStrip * row_bytes : nullptr);
    }
  }

 private:
  // Up to so many rows a panel costs more than it saves (measured): with the 32 registers of AVX-512, more.
  static constexpr size_t kFewRows = Isa::kLanes == 16             ? (T::kLight ? 2 * Isa::kTile : 4)
                                     : HasPairs<Isa> && T::kSigned ? 4
                                                                   : 2;

  template <class Rows>
  void few_or_many(Rows (&rows)[kGroups]) {
    if constexpr (!HasTiles<Isa>)
      if (part_.rows <= kFewRows) {
        for (int g = 0; g < kGroups; ++g)
          for (size_t r = 0; r < part_.rows; r += Isa::kTile) {
            Rows own = rows[g];  // the next tile finds them in a cache
            few<std::min(int(kFewRows), Isa::kTile)>(own, r, g);
          }
        return finish(0, part_.rows);
      }
    many(rows, nullptr);
  }

  // A tile of x, of at most MR rows from r on, by vector g of the outputs: nothing waits in memory. A part begins with
  // a tile, so only the last tile has fewer rows than Isa::kTile.
  template <int MR, class Rows>
  void few(Rows& rows, size_t r, int g) const {
    if constexpr (MR > 1) {
      if (part_.rows - r < MR) return few<MR - 1>(rows, r, g);
    }
    tile_of_few<MR>(rows, r, g);
  }
  // Inlined into its callers it would read from memory more slowly.
  template <int MR, class Rows>
  [[gnu::noinline, gnu::flatten]] void tile_of_few(Rows& rows, size_t r, int g) const {
    F y[MR][1];  // of one vector
    for (int i = 0; i < MR; ++i) y[i][0] = Isa::zero();
    size_t c = 0, at = 0;  // the chunk, and the run in it
    for (size_t b = 0; b < p_.k / T::kBlock; ++b) {
      const size_t first = x_.at(part_.row + r, c) / T::kRun + at * MR;
      if constexpr (HasRuns<T>) {
        RunDots<Isa, T, MR> dots[1];
        dots[0].x = x_.q + first * T::kRun;
        dots[0].correction = x_.correction + first;
        RunNumbers numbers = numbers_of(first);
        // Pointers from nowhere: GCC's combiner begins a block anew at each use of one that was computed far above,
        // which took half a minute per file.
        asm("" : "+r"(dots[0].x), "+r"(dots[0].correction), "+r"(numbers.scale), "+r"(numbers.less), "+r"(numbers.sum));
        T::template unpack<Isa>(rows, 0, dots[0]);
#pragma GCC unroll 16
        for (size_t run = 0; run < kRuns; ++run) add_run<MR>(dots, dots[0].dot[run], numbers, run * MR, run, y);
      } else {
        Panel<Isa> panel[1];
        T::template unpack<Isa>(rows, 0, panel[0]);
        whole_run<MR>(panel, first, 0, y);
      }
      rows.advance();
      at += kRuns;
      if (at == x_.chunk / T::kRun) at = 0, ++c;
    }
    for (int i = 0; i < MR; ++i) Isa::store(y[i][0], sum(r + size_t(i), g));
  }

  // `next`: the strip that this thread probably unpacks after this one, to be fetched; or nullptr.
  template <class Rows>
  void many(Rows (&rows)[kGroups], const uint8_t* next) {
    if constexpr (T::kSigned && HasPairs<Isa>)
      if (part_.rows >= kSplitRows) return panels<SplitPanel<Isa>>(rows, next);
    panels<Panel<Isa>>(rows, next);
  }
  template <class P, class Rows>
  void panels(Rows (&rows)[kGroups], const uint8_t* next) {
    P panel[kGroups];
    const uint8_t* fetched = next;
    for (size_t c = 0; c * x_.chunk < p_.k; ++c) {
      const size_t blocks = std::min(x_.chunk, p_.k - c * x_.chunk) / T::kBlock;
      if (next != nullptr && part_.rows < kManyRows) {  // long before
        for (size_t at = 0; at < blocks * kStrip * T::kBytes; at += 64) __builtin_prefetch(fetched + at);
        fetched += blocks * kStrip * T::kBytes;
      }
      for (int g = 0; g < kGroups; ++g) {
        for (size_t b = 0; b < blocks; ++b) {
          T::template unpack<Isa>(rows[g], b, panel[g]);
          rows[g].advance();
        }
        if constexpr (std::is_same_v<P, SplitPanel<Isa>>) panel[g].split(blocks * T::kBlock / 4);
        if constexpr (HasTiles<Isa>) Isa::template center<T>(panel[g], blocks * T::kBlock / 4);
      }
      Ahead ahead;
      if constexpr (requires { rows[0].stride; })
        if (part_.rows >= kFetchRows)
          ahead = {(c + 1) * x_.chunk < p_.k ? rows[0].p : next, rows[0].stride, blocks * T::kBytes / 64 + 1};
      pass(panel, c, blocks * kRuns, ahead);
    }
  }

  // What the next panel is unpacked from, or nullptr.
  struct Ahead {
    const uint8_t* p = nullptr;
    size_t stride = 0, lines = 0;  // bytes from an output to the next; cache lines of each
    void fetch(size_t begin, size_t end) const {
      for (size_t i = begin; i < end; ++i) __builtin_prefetch(p + i / lines * stride + i % lines * 64);
    }
  };

  // All rows by one panel. While a tile is computed, lines come that are needed later.
  template <class P>
  void pass(const P (&panel)[kGroups], size_t chunk, size_t runs, const Ahead& ahead) {
    size_t r = 0, fetched = 0;
    const size_t lines = ahead.p ? kStrip * ahead.lines : 0, of_a_tile = lines * Isa::kTile / part_.rows + 1;
    const bool is_last = (chunk + 1) * x_.chunk >= p_.k;
    const auto begin = [&](size_t tile) {
      for (size_t i = tile * Isa::kTile; is_last && i < (tile + 1) * Isa::kTile; ++i)
        for (size_t o = 0; o < kStrip; o += 16) __builtin_prefetch(p_.y + (part_.row + i) * p_.outs + first_ + o, 1);
      const size_t end = std::min(lines, fetched + of_a_tile);
      ahead.fetch(fetched, end), fetched = end;
    };
    const auto end = [&](size_t tile) {
      if (is_last) finish(tile * Isa::kTile, Isa::kTile);
    };
    if constexpr (HasTiles<Isa>) {
      const size_t tiles = part_.rows / Isa::kTile;
      if (tiles > 0) by_tiles<Isa::kTile>(panel, 0, chunk, runs, tiles, begin, end);
      r = tiles * Isa::kTile;
    } else {
      for (; r + Isa::kTile <= part_.rows; r += Isa::kTile) {
        begin(r / Isa::kTile);
        tile<Isa::kTile>(panel, r, chunk, runs);
        end(r / Isa::kTile);
      }
    }
    if (r == part_.rows) return;
    if constexpr (HasTiles<Isa>) {
      const auto nothing = [](size_t) {};
      by_tiles<0>(panel, r, chunk, runs, 1, nothing, nothing);
    } else {
      last_tile<Isa::kTile - 1>(panel, r, chunk, runs);
    }
    if (is_last) finish(r, part_.rows - r);
  }
  template <int MR, class P>
  void last_tile(const P (&panel)[kGroups], size_t r, size_t chunk, size_t runs) {
    if constexpr (MR > 1) {
      if (part_.rows - r < MR) return last_tile<MR - 1>(panel, r, chunk, runs);
    }
    tile<MR>(panel, r, chunk, runs);
  }

  template <int MR, class P>
  void tile(const P (&panel)[kGroups], size_t r, size_t chunk, size_t runs) {
    F y[MR][kGroups];
    for (int i = 0; i < MR; ++i)
      for (int g = 0; g < kGroups; ++g) y[i][g] = chunk == 0 ? Isa::zero() : Isa::load_floats(sum(r + i, g));
    const size_t first = x_.at(part_.row + r, chunk) / T::kRun;
    for (size_t b = 0; b < runs; ++b) whole_run<MR>(panel, first + b * MR, b, y);
    for (int i = 0; i < MR; ++i)
      for (int g = 0; g < kGroups; ++g) Isa::store(y[i][g], sum(r + i, g));
  }

  // The same for several tiles; MR = 0: for the rows that are left.
  template <int MR, class P, class Begin, class End>
  void by_tiles(const P (&panel)[kGroups], size_t r, size_t chunk, size_t runs, size_t tiles, const Begin& begin,
                const End& end) const {
    Isa::template add_tiles<T, MR>(panel, runs, x_, x_.at(part_.row + r, chunk) / T::kRun, tiles, part_.rows - r,
                                   sum(r, 0), chunk == 0, begin, end);
  }

  // dot[i][g] = the products of run `at`, N steps of 4 k. `correction`: of each row.
  template <int N, int MR, class P, size_t G>
  [[gnu::always_inline]] static inline void dots(const P (&panel)[G], const int8_t* x, const int32_t* correction,
                                                 size_t at, V (&dot)[MR][G]) {
    constexpr bool kHasSplit = std::is_same_v<P, SplitPanel<Isa>>;
    static_assert(!kHasSplit || (N == 8 && Isa::kSignedOffset == 0));
    const size_t step = at * N;
    for (int i = 0; i < MR; ++i)
      for (size_t g = 0; g < G; ++g) {
        if constexpr (kHasSplit)
          dot[i][g] = panel[g].begin[at];
        else
          dot[i][g] = Isa::set1(uint32_t(correction[i]));
      }
    V run[MR][G];
#pragma GCC unroll 8
    for (int s = 0; s < N; ++s) {
      V w[G];
      for (size_t g = 0; g < G; ++g) w[g] = panel[g].q[step + size_t(s)];
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        uint32_t four;
        std::memcpy(&four, x + 4 * (s * MR + i), 4);
        const V xs = Isa::set1(four);
#pragma GCC unroll 2
        for (size_t g = 0; g < G; ++g) {
          V xg = xs;
          if constexpr (kHasSplit) xg = Isa::xor_(xs, panel[g].negative[step + size_t(s)]);
          add_step<Isa, T, unsigned(N), T::kSigned && !kHasSplit>(unsigned(s), w[g], xg, run[i][g], dot[i][g]);
        }
      }
    }
  }

  // Run `at` of the panel by runs `first` to first + MR of x.
  template <int MR, class P, size_t G>
  inline void whole_run(const P (&panel)[G], size_t first, size_t at, F (&y)[MR][G]) const {
    V dot[MR][G];
    dots<int(T::kRun / 4)>(panel, x_.q + first * T::kRun, x_.correction + first, at, dot);
    add_run<MR>(panel, dot, numbers_of(first), 0, at, y);
  }
  // Of runs of x, see QuantRows.
  struct RunNumbers {
    const float *scale, *less, *sum;
  };
  [[gnu::always_inline]] inline RunNumbers numbers_of(size_t first) const {
    return {x_.scale + first, x_.less + first, T::kMin ? x_.scaled_sum + first : nullptr};
  }
  template <int MR, class P, size_t G>
  [[gnu::always_inline]] static inline void add_run(const P (&w)[G], const V (&dot)[MR][G], const RunNumbers& x,
                                                    size_t first, size_t at, F (&y)[MR][G]) {
    for (size_t i = 0; i < MR; ++i) {
      const F xs = Isa::set1f(x.scale[first + i]), less = Isa::set1f(x.less[first + i]);
      for (size_t g = 0; g < G; ++g)
        y[i][g] = Isa::fma(w[g].d[at], Isa::fma(Isa::as_float(dot[i][g]), xs, less), y[i][g]);
      if constexpr (T::kMin) {
        const F all = Isa::set1f(x.sum[first + i]);
        for (size_t g = 0; g < G; ++g) y[i][g] = Isa::fma(w[g].m[at], all, y[i][g]);
      }
    }
  }

  float* sum(size_t r, int g) const { return part_.sums + r * kStrip + size_t(g) * Isa::kLanes; }

  // Writes `rows` rows of the part to y, from row r on: finish_sums, most often without changing the sums in memory.
  [[gnu::noinline]] void finish(size_t r, size_t rows) const {
    const float *bias = p_.bias ? p_.bias + first_ : nullptr, *acc = p_.acc;
    for (size_t row = part_.row + r; rows > 0; ++r, ++row, --rows) {
      if (from_ != first_) {
        finish_sums(p_, sum(r, 0) + (from_ - first_), row, from_, first_ + kStrip);
        continue;
      }
      const size_t at = row * p_.outs + first_;
      float* to = p_.y + at;
      F y[kGroups];
      for (int g = 0; g < kGroups; ++g) {
        const size_t o = size_t(g) * Isa::kLanes;
        y[g] = Isa::load_floats(sum(r, g));
        if (bias) y[g] = Isa::add(y[g], Isa::load_floats(bias + o));
        if (acc) y[g] = Isa::add(y[g], Isa::load_floats(acc + at + o));
      }
      for (int g = 0; g < kGroups; ++g) Isa::store(y[g], to + size_t(g) * Isa::kLanes);
    }
  }

  const QuantProduct& p_;
  const QuantRows x_;
  const QuantPart& part_;
  size_t from_ = 0, first_ = 0;  // outputs from `from_` on are written; those that are computed begin at `first_`
};

// Calls f(T()) for the type.
template <class Fn>
inline auto with_type(DType type, const Fn& f) {
  return quant::with_format(type, [&]<class F>() { return f(Unpacked<F>()); });
}

template <class Isa>
int offset_of_type(DType type) {
  return with_type(type, [](auto t) {
    using T = decltype(t);
    return T::kSigned ? Isa::kSignedOffset : T::kOffset;
  });
}

template <class Isa, class T>
void repack_strip_of(const uint8_t* w, size_t k, uint8_t* to) {
  constexpr size_t kStrip = 2 * Isa::kLanes, kBytes = Isa::kLanes * T::kBytes;
  const size_t blocks = k / T::kBlock, row_bytes = blocks * T::kBytes;
  const uint8_t* ahead = w + kStrip * row_bytes;
  Panel<Isa> nowhere;
  for (size_t from = 0; from < kStrip; from += Isa::kLanes)
    for (size_t b = 0; b < blocks; ++b, ahead += kBytes) {
      for (size_t at = 0; at < kBytes; at += 64) __builtin_prefetch(ahead + at);
      StreamWriter<Isa, T> writer{
          {w + from * row_bytes + b * T::kBytes, row_bytes, Isa::multiples(uint32_t(row_bytes))}, to};
      T::template unpack<Isa>(writer, 0, nowhere);
      to = writer.to;
    }
}

template <class Isa>
void repack_strip(DType type, const uint8_t* w, size_t k, uint8_t* to) {
  with_type(type, [&](auto t) { repack_strip_of<Isa, decltype(t)>(w, k, to); });
}

template <class Isa>
void run_strip(const QuantPart& part, size_t s) {
  with_type(part.p->w_type, [&](auto t) { QuantTask<Isa, decltype(t)>(part).strip(s); });
}

}  // namespace
}  // namespace toy::cpu

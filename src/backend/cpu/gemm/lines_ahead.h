// What a product needs next, fetched to L2 while it computes what it has. Every line keeps one of a core's few fill
// buffers for as long as memory takes, and the operands at hand come through them, too: so lines are fetched far apart,
// not all at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/gemm/gemm.h"

namespace toy::cpu {

// How `lines` are spread over the steps of a tile. Made once for many tiles: divisions take as long as a few steps.
struct Pace {
  Pace() = default;
  Pace(size_t lines, size_t steps)
      : every(lines > 0 ? std::max<size_t>(1, steps / lines) : 0),
        together(ceil_div(lines, std::max<size_t>(1, steps))) {}
  size_t every = 0;  // steps from one fetch to the next; 0: none
  size_t together = 0;
};

// Where reading goes on: lines of rows, one after the other. Addresses are numbers: rows may overlap, and the last line
// of a row may lie behind its memory.
struct LineCursor {
  uintptr_t p = 0;
  size_t in_row = 0, per_row = 0;
  size_t skip = 0;  // bytes from the end of a row's last line to the next row, modulo 2^64

  void advance(size_t lines) {
    for (; lines >= in_row && lines > 0; in_row = per_row) {
      lines -= in_row;
      p += in_row * 64 + skip;
    }
    p += lines * 64;
    in_row -= lines;
  }
};

// Lines to fetch during one tile. The loop over the steps calls step() in each: a call there, also a rare one, would
// save all sums of a tile to memory, so it is always inlined.
class Fetch {
 public:
  Fetch() = default;
  Fetch(const LineCursor& at, size_t lines, const Pace& pace)
      : at_(at), lines_(lines), pace_(pace), due_(lines > 0 ? pace.every : 0) {}
  size_t lines() const { return lines_; }
  [[gnu::always_inline]] void step() {
    if (__builtin_expect(--due_ == 0, 0)) {
      for (size_t i = std::min(pace_.together, lines_); i > 0; --i, --lines_) line();
      due_ = pace_.every;
    }
  }

 private:
  [[gnu::always_inline]] void line() {
    __builtin_prefetch(reinterpret_cast<const void*>(at_.p), 0, 2);
    at_.p += 64;
    if (--at_.in_row == 0) at_.p += at_.skip, at_.in_row = at_.per_row;
  }

  LineCursor at_;
  size_t lines_ = 0;
  Pace pace_;
  size_t due_ = 0;  // steps until the next; from 0 it never comes
};

// Memory that will be read later: rows of `width` bytes, `stride` bytes apart.
class LinesAhead {
 public:
  LinesAhead() = default;
  LinesAhead(const void* p, size_t stride, size_t rows, size_t width) {
    const size_t before = reinterpret_cast<uintptr_t>(p) % 64;
    // Half lines: their other halves were read just before, and these with them.
    if (before > 0 && before + width <= 64 && stride % 64 == 0) return;
    const size_t per_row = ceil_div(before + width, 64);
    at_ = {reinterpret_cast<uintptr_t>(p), per_row, per_row, stride - per_row * 64};
    left_ = rows * per_row;
  }
  size_t left() const { return left_; }
  // The next lines, at most `most`.
  Fetch take(size_t most, const Pace& pace) {
    const size_t lines = std::min(most, left_);
    const Fetch f(at_, lines, pace);
    at_.advance(lines);
    left_ -= lines;
    return f;
  }

 private:
  LineCursor at_;
  size_t left_ = 0;
};

}  // namespace toy::cpu

// A contiguous tensor as [outer, terms, inner]: the axis that an op sums over or joins along, and what lies around it.
#pragma once

#include "backend/cpu/gemm/tiles.h"

namespace toy::cpu {

struct AlongAxis {
  int64_t outer = 1, terms, inner = 1;

  AlongAxis(const Shape& shape, int axis) : terms(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }

  /// Calls f(o, j, count) for this thread's tiles: at [o, ., j], `count` neighbours of at most `columns` along the
  /// inner dimension.
  template <class F>
  void for_each_tile(const ExecContext& ctx, int64_t columns, F&& f) const {
    const int64_t pieces = div_up(inner, columns);
    const Range tiles = share_rows(ctx, outer * pieces, terms * std::min(inner, columns));
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
      const int64_t j = t % pieces * columns;
      f(t / pieces, j, std::min(columns, inner - j));
    }
  }

  /// Calls f(o) for this thread's lines of a tensor whose axis is the innermost.
  template <class F>
  void for_each_line(const ExecContext& ctx, F&& f) const {
    const Range lines = share_rows(ctx, outer, terms);
    for (int64_t o = lines.begin; o < lines.end; ++o) f(o);
  }
};

}  // namespace toy::cpu

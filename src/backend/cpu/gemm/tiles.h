// How elementwise and row-wise kernels cut their work. A tile holds about kTile elements whatever the number
// of threads, so a small tensor is one tile, and one thread works on it while the others go on to the
// barrier.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "toy/backend/host_kernel.h"

namespace toy::cpu {

inline constexpr int64_t kTile = 4096;

/// Does every operand that is there have one of these types?
template <DType... types>
bool only(const KernelQuery& q) noexcept {
  const auto fits = [](const OperandDesc& d) { return !d.present || ((d.dtype == types) || ...); };
  return std::all_of(q.in.begin(), q.in.end(), fits) && std::all_of(q.out.begin(), q.out.end(), fits);
}
/// For KernelRecord::accepts. What comparisons give and the condition of where are i32.
inline constexpr auto only_f32 = only<DType::f32>, f32_or_i32 = only<DType::f32, DType::i32>;

inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// This thread's elements of n.
inline Range share_elements(const ExecContext& ctx, int64_t n) {
  const Range tiles = ctx.share(div_up(n, kTile));
  return {std::min(n, tiles.begin * kTile), std::min(n, tiles.end * kTile)};
}

/// This thread's rows, of `width` elements each.
inline Range share_rows(const ExecContext& ctx, int64_t rows, int64_t width) {
  const int64_t group = std::max<int64_t>(1, kTile / std::max<int64_t>(1, width));
  const Range tiles = ctx.share(div_up(rows, group));
  return {std::min(rows, tiles.begin * group), std::min(rows, tiles.end * group)};
}

/// Rows of a tensor: everything but its last dimension.
inline int64_t row_count(const View& v) { return v.shape.back() > 0 ? v.count() / v.shape.back() : 0; }

/// Rows whose terms of a sum over rows are added up before such chunks are (column_sums-inl.h).
inline constexpr int64_t kRowChunk = 64;

/// Bytes for kSums rows of sums over the rows of `x`: one part for each chunk, if there are several. The sums are the
/// outputs behind the first.
template <int kSums>
size_t column_sums_workspace(const KernelQuery& q, const Shape& x) noexcept {
  const bool wanted = std::any_of(q.out.begin() + 1, q.out.end(), [](const OperandDesc& d) { return d.present; });
  const int64_t D = x.back(), rows = D > 0 ? x.count() / D : 0, chunks = div_up(rows, kRowChunk);
  return wanted && chunks > 1 ? size_t(chunks * kSums * D) * sizeof(float) : 0;
}

/// The loops over a contiguous output with the strides of kInputs operands that are broadcast to it (numpy's
/// rules). Dimensions of size 1 are dropped and neighbours joined where every operand allows it, so runs are
/// long. Dimension 0 is the innermost.
template <int kInputs>
struct Nest {
  int rank = 0;
  std::array<int64_t, kMaxRank> size{};
  std::array<std::array<int64_t, kInputs>, kMaxRank> stride{};

  Nest(const Shape& out, const std::array<const View*, kInputs>& in) {
    for (int i = 0; i < out.rank(); ++i) {  // from the innermost outwards
      if (out.back(i) == 1) continue;
      std::array<int64_t, kInputs> s{};
      for (int k = 0; k < kInputs; ++k)
        if (const int r = in[k]->shape.rank(); i < r && in[k]->shape.back(i) != 1) s[k] = in[k]->stride[r - 1 - i];
      if (rank > 0 && continues(s)) {
        size[rank - 1] *= out.back(i);
      } else {
        size[rank] = out.back(i);
        stride[rank++] = s;
      }
    }
    if (rank == 0) {  // one element
      rank = 1, size[0] = 1;
      stride[0].fill(1);
    }
  }

  /// Calls f(offsets of the inputs, offset of the output, count) for this thread's runs along dimension 0.
  template <class F>
  void for_each_run(const ExecContext& ctx, const F& f) const {
    int64_t outer = 1;
    for (int d = 1; d < rank; ++d) outer *= size[d];
    const int64_t inner = size[0], pieces = div_up(inner, kTile);
    const Range runs = share_rows(ctx, outer * pieces, std::min(inner, kTile));
    for (int64_t run = runs.begin; run < runs.end; ++run) {
      int64_t rest = run / pieces;
      const int64_t begin = run % pieces * kTile, row = rest;
      std::array<int64_t, kInputs> at{};
      for (int k = 0; k < kInputs; ++k) at[k] = begin * stride[0][k];
      for (int d = 1; d < rank; ++d) {
        const int64_t index = d + 1 == rank ? rest : rest % size[d];
        rest /= size[d];
        for (int k = 0; k < kInputs; ++k) at[k] += index * stride[d][k];
      }
      f(at, row * inner + begin, std::min(kTile, inner - begin));
    }
  }

 private:
  bool continues(const std::array<int64_t, kInputs>& s) const {
    for (int k = 0; k < kInputs; ++k)
      if (s[k] != stride[rank - 1][k] * size[rank - 1]) return false;
    return true;
  }
};

}  // namespace toy::cpu

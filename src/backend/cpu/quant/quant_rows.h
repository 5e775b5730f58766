// Rows of activations in 8 bits, as quant.h defines them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace toy::cpu {

constexpr size_t kMostChunk = 384;  ///< k of a chunk, unless it is a complete row

/// Rows of int8 with what products need of them, in the order in which products read: a chunk of k of all rows, then
/// the next. Of these, tiles of `tile` rows follow each other (the last may have fewer), and in a tile the rows are
/// interleaved: all of them have 4 values, then the next 4; or all have a run, then the next. The other arrays are
/// interleaved in the same way, item by item.
///
/// A sum of the products of a run begins with the bits of kRounder, which it then is, as a float, plus the sum: no
/// conversion is needed. Times a scale of 22 bits kRounder is exact, so scale * sum takes one fma, which rounds once.
inline constexpr float kRounder = 0x1.8p23f;
struct QuantRows {
  size_t rows = 0, k = 0;
  size_t run = 32;     ///< values that share a scale, and one of the weights, and are summed up
  size_t tile = 1;     ///< 1: complete rows follow each other
  size_t chunk = 256;  ///< k that follow each other before the next rows have theirs; the last chunk may have fewer
  int8_t* q = nullptr;
  // [k / run] for each row:
  float* scale = nullptr;
  float* less = nullptr;          ///< -kRounder times scale
  float* scaled_sum = nullptr;    ///< scale times the sum of the quantized values
  int32_t* correction = nullptr;  ///< the bits of kRounder, minus the weights' offset times that sum

  /// Bytes of memory for `rows` rows in any division, and behind q room for a tile that has fewer rows and is
  /// read as if it had all (AMX).
  static size_t bytes(size_t rows, size_t k, size_t run) { return rows * (k + k / run * 16) + 8 * 64; }
  /// Lays the arrays out in memory that is 64-byte aligned. `block`: values of a block of weights.
  QuantRows(std::byte* memory, size_t rows, size_t k, size_t block, size_t run, size_t tile);
  /// Row `r` and those after it, where complete rows follow each other.
  QuantRows from(size_t r) const {
    QuantRows s = *this;
    const size_t runs = r * (k / run);
    s.rows -= r, s.q += r * k, s.scale += runs, s.less += runs, s.scaled_sum += runs, s.correction += runs;
    return s;
  }
  /// Where in q chunk `c` of the tile that begins with row `first` is. In the other arrays this is divided by `run`.
  size_t at(size_t first, size_t c) const { return c * chunk * rows + first * std::min(chunk, k - c * chunk); }
};

/// Quantizes rows [first, last) of x, which are complete tiles. `offset`: what was added to the weights to make them
/// unsigned. `by_runs`: rows of a tile have a run in turn instead of 4 values.
void quantize_rows(const float* x, size_t first, size_t last, int offset, bool by_runs, const QuantRows& to);

}  // namespace toy::cpu

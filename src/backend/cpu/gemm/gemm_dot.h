// What the parts of dot_product agree on: how it cuts its work, and one thread's workspace.
#pragma once

#include <algorithm>

#include "backend/cpu/gemm/gemm.h"

namespace toy::cpu {

inline constexpr size_t kStrip = 8;                   // outputs of a unit
inline constexpr size_t kTileRows = 3;                // rows of a register tile
inline constexpr size_t kFewRows = 48;                // up to here w is read in place, strip by strip
inline constexpr size_t kMaxOrdered = 8;              // up to here, or as registers allow, w may be read row after row
inline constexpr size_t kRowBlock = 256;              // rows for which a packed K-block of x stays in L2
inline constexpr size_t kPackedX = size_t(13) << 16;  // bytes of packed x, all K-blocks of it, that stay in 1 MiB of L2
inline constexpr size_t kDecodedRows = 96;            // rows at once that are worth making rows of w f32 for
inline constexpr size_t kLeastRows = 96;              // fewer rows at once are not worth passing over w for
inline constexpr size_t kGroup = 32;  // strips whose partial sums are held aside when y must not be touched yet
inline constexpr size_t kMaxRows = kRowBlock + kTileRows;  // of a block, after rounding to whole tiles

// What a thread does: strips of rows; `claim` > 0: of these the ones that it claims, at least so many at a time.
struct DotPart {
  Range rows, strips;
  size_t claim = 0;
};

// The most rows that pass by a strip of w with all of their K; 0: too few.
inline size_t most_strip_rows(const KBlocks& blocks) {
  const size_t rows = std::min(kPackedX / (blocks.len * blocks.count * sizeof(float)), round_up(kRowBlock, kTileRows));
  return rows < kLeastRows ? 0 : rows / kTileRows * kTileRows;
}
// Of `rows` rows so many at once: few all, else equal blocks that are whole tiles. 0: K-block by K-block.
inline size_t strip_rows(size_t rows, const KBlocks& blocks) {
  const size_t most = most_strip_rows(blocks);
  if (rows <= kFewRows || most == 0) return rows <= kFewRows ? rows : 0;
  return round_up(ceil_div(rows, ceil_div(rows, most)), kTileRows);
}

// Floats of one thread's workspace: packed x, a strip of w, partial sums, the rows of a strip of quantized weights.
struct DotSpace {
  size_t x, strip, sums, ld_sums, lanes, decoded;
  DotSpace(size_t rows, size_t outs, const KBlocks& blocks, DType w_type) {
    const size_t tiles = round_up(rows, kTileRows), whole = std::max(kFewRows, most_strip_rows(blocks));
    x = std::max(std::min(tiles, whole) * blocks.count, std::min(tiles, kMaxRows)) * blocks.len;
    strip = kStrip * blocks.len;
    ld_sums = std::min(round_up(outs, kStrip), kGroup * kStrip);
    sums = round_up(blocks.count == 1 ? 0 : std::min(rows, kMaxRows) * ld_sums, 16);
    lanes = std::min(rows, kMaxOrdered) * kStrip * 16 * blocks.count;
    decoded = is_quantized(w_type) ? kStrip * blocks.k : 0;
  }
  size_t bytes() const { return round_up((x + strip + sums + lanes + decoded) * sizeof(float), 64); }
};

}  // namespace toy::cpu

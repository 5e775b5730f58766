// Which pages hold what of a sequence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "toy/decode/state.h"

namespace toy {

/// The first page that a row at `position` sees.
inline int64_t first_page(int64_t window, int64_t position) {
  return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1) / kPagePositions;
}

/// The first page that a sequence keeps: its last positions can be taken back.
inline int64_t first_kept(int64_t window, int64_t length, const DecodeShape& shape) {
  return first_page(window, length - shape.take_back);
}

/// The end of the pages of so many positions.
inline int64_t end_page(int64_t length) { return (length + kPagePositions - 1) / kPagePositions; }

}  // namespace toy

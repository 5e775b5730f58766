// What a text that is not tokenized yet will take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/dataset.h"

namespace toy {

/// Texts of more bytes are kept in a cache on disk where there is one.
inline constexpr uint64_t kCacheFrom = uint64_t(64) << 20;

/// Are the bytes of tokens known from the text's, before it is read? A folder that --data-cache names keeps them on
/// disk; with `none`, refusals advise to name one.
inline bool foresees_tokens(const DataOptions& o) { return !o.corpus.empty() && !o.masks && o.cache.empty(); }

/// Before Dataset::tokenize(): bytes that the tokens will take in memory, about. After it: 0.
inline size_t coming_tokens(const Dataset& data) {
  uint64_t bytes = 0;
  for (const TextFile& f : data.files()) bytes += f.bytes;
  return data.tokens() > 0 || bytes > kCacheFrom ? 0 : size_t(sizeof(uint16_t) * bytes);
}

}  // namespace toy

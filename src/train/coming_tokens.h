// What a text that is not tokenized yet will take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "toy/text/tokenizer.h"
#include "train/dataset.h"

namespace toy {

/// Texts of more bytes are kept in a cache on disk where there is one.
inline constexpr uint64_t kCacheFrom = uint64_t(64) << 20;

/// Are the bytes of tokens known from the text's, before it is read? A folder that --data-cache names keeps them on
/// disk; with `none`, refusals advise to name one.
inline bool foresees_tokens(const DataOptions& o) { return !o.corpus.empty() && !o.masks && o.cache.empty(); }

/// Bytes of memory that the tokens of those files will take at least, so that no run is refused which would fit: a
/// token of two bytes for every byte of text where the vocabulary has little more than bytes, else for every sixteen.
inline size_t least_token_bytes(const Dataset& data, const Tokenizer& tokenizer) {
  uint64_t bytes = 0;
  for (const TextFile& f : data.files()) bytes += f.bytes;
  if (bytes > kCacheFrom) return 0;
  return size_t(tokenizer.vocab_size() <= 260 ? 2 * bytes : bytes / 8);
}

}  // namespace toy

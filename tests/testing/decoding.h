// What tests of decoding share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "toy/decode/decoder.h"

namespace toy::testing {

/// Logits after every token of `ids`, fed `piece` tokens at a time.
inline std::vector<float> all_logits(Decoder& d, int sequence, const std::vector<int32_t>& ids, size_t piece) {
  std::vector<float> result;
  for (size_t at = 0; at < ids.size(); at += piece) {
    std::vector<DecodeRow> rows;
    for (size_t i = at; i < std::min(ids.size(), at + piece); ++i) rows.push_back({sequence, ids[i], true});
    d.decode(rows);
    for (size_t i = 0; i < rows.size(); ++i) result.insert(result.end(), d.logits(i).begin(), d.logits(i).end());
  }
  return result;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Bytes of a cache with so many pages, beside states and snapshots; 0 where there are no pages that sequences share.
inline size_t cache_of(const Model& model, DecoderOptions o, int64_t pages) {
  DecodeShape one = decode_shape(model, o);
  one.shared_pages = 1;
  const size_t page = shared_page_bytes(model.spec, one);
  if (page == 0) return 0;
  for (o.cache = state_bytes(model.spec, one); decode_shape(model, o).shared_pages < pages; o.cache += page) {
  }
  return o.cache;
}

}  // namespace toy::testing

#include "text/spm/chars_map.h"

#include <utility>

#include "toy/base/error.h"

namespace toy {
namespace {

uint32_t u32_at(std::string_view bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i) n |= uint32_t(uint8_t(bytes[at + i])) << (8 * i);
  return n;
}

// A unit of Darts-clone (DoubleArrayUnit in darts.h): the label in the low byte, bit 8 for "a key ends here",
// the offset to the children above; in the unit of an end itself bit 31 is set and the rest is the value.
bool has_leaf(uint32_t unit) { return (unit >> 8) & 1; }
uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t value(uint32_t unit) { return unit & ~(1u << 31); }

}  // namespace

CharsMap::CharsMap(std::string blob, const std::string& source) : blob_(std::move(blob)) {
  if (blob_.empty()) return;
  check(blob_.size() > 4, "{}: precompiled_charsmap has {} bytes, too few", source, blob_.size());
  const size_t trie_bytes = u32_at(blob_, 0);
  check(trie_bytes % 4 == 0 && trie_bytes >= 4 && trie_bytes < blob_.size() - 4,
        "{}: precompiled_charsmap has {} bytes, which do not hold a trie of {} bytes and replacements", source,
        blob_.size(), trie_bytes);
  check(blob_.back() == '\0', "{}: precompiled_charsmap does not end with a NUL", source);
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(u32_at(blob_, at));
  replacements_ = 4 + trie_bytes;
}

// commonPrefixSearch in darts.h, with every index checked.
CharsMap::Match CharsMap::longest(std::string_view text) const {
  Match match;
  if (units_.empty()) return match;
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = uint8_t(text[i]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t at = replacements_ + value(units_[node]);
    if (at >= blob_.size()) break;
    match = {i + 1, std::string_view(blob_.data() + at)};  // ends at a NUL: the last byte is one
  }
  return match;
}

}  // namespace toy

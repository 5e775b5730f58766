// Words come again: the ids of one that was seen are copied.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace toy {

/// Of one text. Where two words fall on one place, the later one stays.
class SeenWords {
 public:
  /// `bytes`: of the text.
  explicit SeenWords(size_t bytes) : seen_(std::clamp(std::bit_ceil(bytes / 16), size_t(1), size_t(1) << 16)) {}

  /// Appends the ids of a word of the text to `ids`, always the same vector: a copy, or what encode() appends.
  template <class Encode>
  void put(std::string_view word, std::vector<int32_t>& ids, const Encode& encode) {
    Seen& seen = seen_[std::hash<std::string_view>()(word) & (seen_.size() - 1)];
    const size_t first = ids.size();
    if (seen.word == word) {
      ids.resize(first + seen.count);
      std::copy_n(ids.begin() + ptrdiff_t(seen.first), seen.count, ids.begin() + ptrdiff_t(first));
    } else {
      encode();
    }
    seen = {word, first, ids.size() - first};  // the place that is nearest in memory
  }

 private:
  struct Seen {
    std::string_view word;
    size_t first = 0, count = 0;  // its ids
  };
  std::vector<Seen> seen_;
};

}  // namespace toy

// The table of replacements of a SentencePiece model (NormalizerSpec::precompiled_charsmap), such as nmt_nfkc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// Format (EncodePrecompiledCharsMap in the library's normalizer.cc): the bytes of a double-array trie as u32, its
/// units of 32 bits as in Darts-clone, and the replacements, each ended by a NUL. All little-endian.
class CharsMap {
 public:
  CharsMap() = default;  ///< replaces nothing
  /// Throws Error{bad_input} with `source` for what is no such table.
  CharsMap(std::string blob, const std::string& source);

  struct Match {
    size_t bytes = 0;  ///< of the text; 0: no rule applies
    std::string_view replacement;
  };
  /// The longest rule that the text begins with.
  Match longest(std::string_view text) const;

  bool empty() const { return blob_.empty(); }
  const std::string& blob() const { return blob_; }

 private:
  std::string blob_;
  std::vector<uint32_t> units_;
  size_t replacements_ = 0;  ///< where in blob_
};

}  // namespace toy

// The tokens of a vocabulary as a tree of bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy::grammar {

/// A tree in preorder: children follow their parent, and `end` is where the next node outside of the subtree is.
struct Trie {
  struct Node {
    int32_t end = 0;               ///< behind the subtree
    int32_t first = 0, count = 0;  ///< of `ids`: tokens that end here
    uint16_t depth = 0;            ///< bytes up to and with this one's
    uint8_t byte = 0;
  };
  std::vector<Node> nodes;
  std::vector<int32_t> ids;
  int32_t deepest = 0;
  std::vector<std::string> bytes;     ///< of each token; "" where it has no text
  std::vector<int32_t> ends_of_text;  ///< Tokenizer::end_of_generation()
  size_t words() const { return (bytes.size() + 63) / 64; }

  /// `named` as TokenTrie's.
  explicit Trie(const Tokenizer& tokenizer, std::span<const int32_t> named = {});
};

}  // namespace toy::grammar

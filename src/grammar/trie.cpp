#include "grammar/trie.h"

#include <algorithm>
#include <numeric>

#include "toy/grammar/grammar.h"

namespace toy::grammar {

Trie::Trie(const Tokenizer& tokenizer, std::span<const int32_t> named) : ends_of_text(tokenizer.end_of_generation()) {
  const int32_t size = tokenizer.vocab_size();
  for (int32_t id = 0; id < size; ++id) bytes.push_back(tokenizer.token_bytes(id));
  for (const int32_t id : named) bytes[size_t(id)] = tokenizer.written(id);
  for (const int32_t id : ends_of_text) bytes[size_t(id)].clear();
  std::vector<int32_t> order;
  for (int32_t id = 0; id < size; ++id)
    if (!bytes[size_t(id)].empty() && bytes[size_t(id)].size() < UINT16_MAX) order.push_back(id);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::pair<std::string_view, int32_t>(bytes[size_t(a)], a) <
           std::pair<std::string_view, int32_t>(bytes[size_t(b)], b);
  });
  std::vector<int32_t> path;  // nodes of the bytes of the token before
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) nodes[size_t(path.back())].end = int32_t(nodes.size());
  };
  for (const int32_t id : order) {
    const std::string_view text = bytes[size_t(id)];
    const size_t common =
        size_t(std::mismatch(text.begin(), text.begin() + int64_t(std::min(text.size(), before.size())), before.begin())
                   .first -
               text.begin());
    leave(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(int32_t(nodes.size()));
      nodes.push_back({.depth = uint16_t(i + 1), .byte = uint8_t(text[i])});
    }
    Node& node = nodes[size_t(path.back())];
    if (node.count++ == 0) node.first = int32_t(ids.size());
    ids.push_back(id);
    deepest = std::max(deepest, int32_t(text.size()));
    before = text;
  }
  leave(0);
}

}  // namespace toy::grammar

namespace toy {

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::span<const int32_t> named)
    : trie_(std::make_shared<grammar::Trie>(tokenizer, named)) {}

}  // namespace toy

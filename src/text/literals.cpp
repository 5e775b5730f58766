#include "text/literals.h"

#include <algorithm>
#include <utility>

namespace toy {

Literals::Literals(std::vector<PieceTrie::Entry> entries) {
  std::erase_if(entries, [](const PieceTrie::Entry& e) { return e.text.empty(); });
  std::sort(entries.begin(), entries.end(), [](const PieceTrie::Entry& a, const PieceTrie::Entry& b) {
    return std::pair(a.text, a.id) < std::pair(b.text, b.id);
  });
  const auto same = [](const PieceTrie::Entry& a, const PieceTrie::Entry& b) { return a.text == b.text; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());
  if (entries.empty()) return;
  for (const PieceTrie::Entry& e : entries) {
    first_bytes_[uint8_t(e.text[0])] = true;
    longest_ = std::max(longest_, e.text.size());
  }
  trie_.emplace(entries);
}

Literals::Match Literals::longest_at(std::string_view text) const {
  Match match;
  int32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = trie_->child(node, text[i]);
    if (node == PieceTrie::kNone) break;
    if (const int32_t id = trie_->id(node); id != PieceTrie::kNone) match = {0, i + 1, id};
  }
  return match;
}

Literals::Match Literals::find(std::string_view text, size_t from, bool last) const {
  const size_t undecided = last ? 0 : std::min(text.size(), std::max<size_t>(longest_, 1) - 1);
  const size_t end = std::max(from, text.size() - undecided);
  for (size_t i = from; trie_ && i < end; ++i) {
    if (!first_bytes_[uint8_t(text[i])]) continue;
    Match match = at(text.substr(i));
    match.begin = i;
    if (match.bytes > 0) return match;
  }
  return {end, 0, -1};
}

}  // namespace toy

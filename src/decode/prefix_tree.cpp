#include "decode/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace toy {
namespace {

constexpr size_t kPage = size_t(kPagePositions);

// The edge that begins at this token.
std::span<const int32_t> edge_at(std::span<const int32_t> tokens, size_t at) {
  return tokens.subspan(at, std::min(kPage, tokens.size() - at));
}

size_t common(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

PrefixTree::~PrefixTree() {
  for (const auto& [key, node] : order_) {
    if (node->page >= 0) state_.release_page(node->page);
    if (node->state) state_.drop(*node->state);
  }
}

void PrefixTree::touch(Node& node) {
  for (Node* n = &node; n->parent; n = n->parent) {
    order_.erase(key(*n));
    n->used_at = now_;
    order_.emplace(key(*n), n);
  }
}

void PrefixTree::touch_state(Node& node) {
  snapshots_.erase(state_key(node));
  node.state_used_at = now_;
  snapshots_.emplace(state_key(node), &node);
}

PrefixTree::Found PrefixTree::find(std::span<const int32_t> tokens, const PrefixSpace& space) {
  ++now_;
  const auto root = roots_.find(space);
  if (root == roots_.end()) return {};
  Node* node = &root->second;
  while (size_t(node->depth) * kPage < tokens.size()) {
    const std::span<const int32_t> edge = edge_at(tokens, size_t(node->depth) * kPage);
    const auto next = node->children.find({edge.begin(), edge.end()});
    if (next == node->children.end() || edge.size() < kPage) break;
    node = next->second.get();
  }
  // From there back, the first whose state is there: its own, or that of a child that ends in these tokens.
  const bool only_pages = state_.only_pages();
  size_t known = 0;
  for (; true; node = node->parent) {
    const size_t at = size_t(node->depth) * kPage;
    const std::span<const int32_t> rest = tokens.subspan(at);
    Node* best = nullptr;
    size_t most = 0;
    for (const auto& [edge, next] : node->children) {
      const size_t n = common(edge, rest);
      known = std::max(known, at + n);
      if (n > most && (only_pages || (n == edge.size() && next->state))) best = next.get(), most = n;
    }
    if (best == nullptr && (only_pages || node->state)) best = node;
    if (best == nullptr && node->parent) continue;
    if (best == nullptr || !best->parent) return {.length = 0, .known = known, .pages = {}, .state = nullptr};
    Found found{.length = at + most, .known = known, .pages = {}, .state = best->state ? &*best->state : nullptr};
    touch(*best);
    if (best->state) touch_state(*best);
    for (const Node* n = best; n->parent; n = n->parent)
      if (n->page >= 0) found.pages.insert(found.pages.begin(), n->page);
    return found;
  }
}

PrefixTree::Node& PrefixTree::child(Node& parent, std::span<const int32_t> tokens, int sequence) {
  std::unique_ptr<Node>& child = parent.children[{tokens.begin(), tokens.end()}];
  if (child) return *child;
  child = std::make_unique<Node>();
  child->parent = &parent;
  child->depth = parent.depth + 1;
  child->number = numbers_++;
  child->tokens.assign(tokens.begin(), tokens.end());
  if (state_.shared_pool()) {
    child->page = state_.page_of(sequence, parent.depth);
    state_.hold_page(child->page);
  }
  order_.emplace(key(*child), child.get());
  return *child;
}

PrefixTree::Node* PrefixTree::lookup(Node& root, std::span<const int32_t> tokens) {
  Node* node = &root;
  for (size_t at = 0; at < tokens.size(); at += kPage) {
    const std::span<const int32_t> edge = edge_at(tokens, at);
    const auto next = node->children.find({edge.begin(), edge.end()});
    if (next == node->children.end()) return nullptr;
    node = next->second.get();
  }
  return node;
}

void PrefixTree::insert_pages(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence) {
  insert(tokens.first(tokens.size() / kPage * kPage), space, sequence);
}

void PrefixTree::insert(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence) {
  ++now_;
  const int64_t length = int64_t(tokens.size());
  if (length == 0) return;
  if (!state_.can_keep(sequence, length)) return;
  std::optional<KeptState> kept;
  const Node* known = lookup(roots_[space], tokens);
  if (!state_.only_pages() && !(known && known->state))
    while (!(kept = state_.keep(sequence, length)))
      if (!evict_snapshot()) return;
  Node* node = &roots_[space];
  for (size_t at = 0; at < tokens.size(); at += kPage) node = &child(*node, edge_at(tokens, at), sequence);
  if (kept) node->state = std::move(kept);
  touch(*node);
  if (node->state) touch_state(*node);
}

bool PrefixTree::evict() {
  for (const bool shares : {false, true})
    for (const auto& [key, node] : order_) {
      if (!node->children.empty()) continue;
      if (state_.page_users(node->page) > 1 && !(shares && node->tokens.size() < kPage)) continue;
      erase(node);
      return true;
    }
  return false;
}

bool PrefixTree::exchange(std::span<const int32_t> tokens, const PrefixSpace& space, int sequence) {
  const auto root = roots_.find(space);
  if (root == roots_.end() || !state_.shared_pool()) return false;
  bool any = false;
  Node* node = &root->second;
  for (size_t at = 0; at + kPage <= tokens.size(); at += kPage) {
    const std::span<const int32_t> edge = edge_at(tokens, at);
    const auto next = node->children.find({edge.begin(), edge.end()});
    if (next == node->children.end()) break;
    const int32_t own = state_.page_of(sequence, node->depth);
    node = next->second.get();
    if (node->page == own || state_.page_users(node->page) > 1) continue;
    state_.hold_page(own);
    state_.release_page(std::exchange(node->page, own));
    any = true;
  }
  return any;
}

// The one that was not used for the longest time.
bool PrefixTree::evict_snapshot() {
  if (snapshots_.empty()) return false;
  Node* node = snapshots_.begin()->second;
  snapshots_.erase(snapshots_.begin());
  state_.drop(*node->state);
  node->state.reset();
  if (node->children.empty()) erase(node);
  return true;
}

// Also those before it that are then of no use.
void PrefixTree::erase(Node* node) {
  while (true) {
    if (node->state) {
      snapshots_.erase(state_key(*node));
      state_.drop(*node->state);
    }
    if (node->page >= 0) state_.release_page(node->page);
    order_.erase(key(*node));
    Node* parent = node->parent;
    const std::vector<int32_t> edge = node->tokens;
    parent->children.erase(edge);
    const bool is_root = !parent->parent;
    if (is_root && parent->children.empty()) std::erase_if(roots_, [&](const auto& r) { return &r.second == parent; });
    if (is_root || state_.only_pages() || !parent->children.empty() || parent->state) return;
    node = parent;
  }
}

}  // namespace toy

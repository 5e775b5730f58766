#include "decode/prefix_tree.h"

#include <bit>

namespace toy {
namespace {

std::vector<int32_t> edge_of(std::span<const int32_t> tokens, std::span<const float> adapters, size_t page) {
  const auto part = tokens.subspan(page * size_t(kPagePositions), size_t(kPagePositions));
  std::vector<int32_t> edge(part.begin(), part.end());
  for (size_t i = 0; page == 0 && i < adapters.size(); ++i) edge.push_back(std::bit_cast<int32_t>(adapters[i]));
  return edge;
}

size_t full_pages(std::span<const int32_t> tokens) { return tokens.size() / size_t(kPagePositions); }

}  // namespace

PrefixTree::~PrefixTree() {
  for (const auto& [key, node] : order_) state_.release_page(node->page);
}

bool PrefixTree::fits(const DecodeState& state) {
  return state.pools().size() == 1 && state.shared_pool() && !state.recurrent();
}

void PrefixTree::touch(Node& node) {
  order_.erase(key(node));
  node.used_at = now_;
  order_.emplace(key(node), &node);
}

std::vector<int32_t> PrefixTree::find(std::span<const int32_t> tokens, std::span<const float> adapters) {
  ++now_;
  std::vector<int32_t> pages;
  Node* node = &root_;
  for (size_t p = 0; p < full_pages(tokens); ++p) {
    const auto child = node->children.find(edge_of(tokens, adapters, p));
    if (child == node->children.end()) break;
    node = child->second.get();
    touch(*node);
    pages.push_back(node->page);
  }
  return pages;
}

void PrefixTree::insert(std::span<const int32_t> tokens, std::span<const float> adapters, int sequence) {
  ++now_;
  Node* node = &root_;
  for (size_t p = 0; p < full_pages(tokens); ++p) {
    std::unique_ptr<Node>& child = node->children[edge_of(tokens, adapters, p)];
    if (!child) {
      child = std::make_unique<Node>();
      child->parent = node;
      child->depth = node->depth + 1;
      child->number = numbers_++;
      child->page = state_.page_of(sequence, int64_t(p));
      child->tokens = edge_of(tokens, adapters, p);
      state_.hold_page(child->page);
    }
    node = child.get();
    touch(*node);
  }
}

bool PrefixTree::evict() {
  for (auto it = order_.begin(); it != order_.end(); ++it) {
    Node* node = it->second;
    if (state_.page_users(node->page) > 1 || !node->children.empty()) continue;
    state_.release_page(node->page);
    order_.erase(it);
    const std::vector<int32_t> edge = node->tokens;
    node->parent->children.erase(edge);
    return true;
  }
  return false;
}

}  // namespace toy

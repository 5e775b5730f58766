#include "toy/grammar/grammar.h"

#include <algorithm>
#include <mutex>

#include "grammar/matcher.h"
#include "grammar/trie.h"
#include "toy/base/error.h"

namespace toy {
namespace grammar {
namespace {

using Bits = std::vector<uint64_t>;

void set_bit(Bits& bits, int32_t i) { bits[size_t(i) / 64] |= uint64_t(1) << (size_t(i) % 64); }

// Walks the tokens of the nodes [begin, end), siblings and their subtrees, whose parent has `depth` bytes that led to
// `state`. `on_node` sees each node that can be reached, with the state there.
template <class OnNode>
void walk(Matcher& m, const Trie& trie, int32_t begin, int32_t end, size_t depth, int32_t state, OnNode&& on_node) {
  thread_local std::vector<int32_t> at;
  at.resize(size_t(trie.deepest) + 1);
  at[depth] = state;
  for (int32_t i = begin; i < end;) {
    const Trie::Node& node = trie.nodes[size_t(i)];
    const int32_t next = m.step(at[size_t(node.depth) - 1], node.byte);
    if (next == Matcher::kDead) {
      i = node.end;
      continue;
    }
    at[node.depth] = next;
    on_node(i, next);
    ++i;
  }
}

// What one rule says about the tokens, whatever it returns to.
struct RuleMask {
  Bits allowed;                // tokens that lie in the rule, or end with it
  std::vector<int32_t> exits;  // nodes at which the rule may end while there are longer tokens
};

// The masks of rules, made when they are first needed and shared by all texts of a grammar.
class RuleMasks {
 public:
  RuleMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Trie> trie)
      : automaton_(std::move(automaton)), trie_(std::move(trie)), matcher_(*automaton_) {}
  const Automaton& automaton() const { return *automaton_; }
  const Trie& trie() const { return *trie_; }

  std::shared_ptr<const RuleMask> find(const std::vector<int32_t>& nfa_states) {
    const std::lock_guard lock(mutex_);
    if (const auto known = masks_.find(nfa_states); known != masks_.end()) return known->second;
    if (masks_.size() * trie_->words() * sizeof(uint64_t) > kMostBytes) masks_.clear();
    if (matcher_.count() > kMostStates) matcher_ = Matcher(*automaton_);
    matcher_.restart_work();
    auto mask = std::make_shared<RuleMask>();
    mask->allowed.resize(trie_->words());
    walk(matcher_, *trie_, 0, int32_t(trie_->nodes.size()), 0, matcher_.inside(nfa_states),
         [&](int32_t i, int32_t state) {
           const Trie::Node& node = trie_->nodes[size_t(i)];
           for (int32_t k = 0; k < node.count; ++k) set_bit(mask->allowed, trie_->ids[size_t(node.first + k)]);
           if (matcher_.done(state) && node.end > i + 1) mask->exits.push_back(i);
         });
    masks_.emplace(nfa_states, mask);
    return mask;
  }

 private:
  static constexpr size_t kMostBytes = size_t(64) << 20, kMostStates = 50'000;
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const Trie> trie_;
  std::mutex mutex_;
  Matcher matcher_;
  std::map<std::vector<int32_t>, std::shared_ptr<const RuleMask>> masks_;
};

class GrammarConstraint : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<RuleMasks> masks)
      : masks_(std::move(masks)), matcher_(masks_->automaton()), state_(matcher_.start()) {}
  GrammarConstraint(std::shared_ptr<RuleMasks> masks, Matcher matcher, int32_t state, bool ended)
      : masks_(std::move(masks)), matcher_(std::move(matcher)), state_(state), ended_(ended) {}

  std::unique_ptr<TokenConstraint> clone() const override {
    int32_t state = 0;
    Matcher matcher = matcher_.reduced(state_, state);
    return std::make_unique<GrammarConstraint>(masks_, std::move(matcher), state, ended_);
  }

  void mask(std::span<uint64_t> allowed) override {
    std::fill(allowed.begin(), allowed.end(), 0);
    if (ended_) return;
    const Bits& known = known_mask();
    std::copy_n(known.begin(), std::min(known.size(), allowed.size()), allowed.begin());
  }

  void accept(int32_t token) override {
    const Trie& trie = masks_->trie();
    check(token >= 0 && size_t(token) < trie.bytes.size(), "grammar: token {} is outside the vocabulary", token);
    int32_t next = Matcher::kDead;
    if (std::binary_search(trie.ends_of_text.begin(), trie.ends_of_text.end(), token)) {
      check(matcher_.done(state_) && !ended_, "grammar: the text may not end here");
      ended_ = true;
      return;
    }
    const std::string& bytes = trie.bytes[size_t(token)];
    matcher_.restart_work();
    if (!bytes.empty() && !ended_) {
      next = state_;
      for (const char c : bytes) next = matcher_.step(next, uint8_t(c));
    }
    check(next != Matcher::kDead, "grammar: token {} may not come here", token);
    state_ = next;
    if (matcher_.count() > kMostStates || mask_count_ * trie.words() * sizeof(uint64_t) > kMostBytes) forget();
  }

  bool finished() const override { return ended_ || (matcher_.done(state_) && !matcher_.goes_on(state_)); }

 private:
  static constexpr size_t kMostStates = 10'000, kMostBytes = size_t(8) << 20;

  // Keeps what the present state needs only.
  void forget() {
    int32_t state = 0;
    matcher_ = matcher_.reduced(state_, state);
    state_ = state;
    known_.clear();
    mask_count_ = 0;
  }

  const Bits& known_mask() {
    if (known_.size() < matcher_.count()) known_.resize(matcher_.count());
    const size_t s = size_t(state_);
    if (!known_[s].empty()) return known_[s];
    ++mask_count_;
    matcher_.restart_work();
    return known_[s] = compute_mask();
  }

  Bits compute_mask() {
    const Trie& trie = masks_->trie();
    Bits result(trie.words());
    const std::vector<Return> ways = matcher_.ways(state_);
    for (size_t i = 0; i < ways.size();) {
      const int32_t frame = ways[i].frame;
      std::vector<int32_t> nfa_states;
      for (; i < ways.size() && ways[i].frame == frame; ++i) nfa_states.push_back(ways[i].state);
      const auto rule = masks_->find(nfa_states);
      for (size_t w = 0; w < result.size(); ++w) result[w] |= rule->allowed[w];
      if (frame != Matcher::kBottom && !rule->exits.empty()) add_exits(rule->exits, matcher_.after(frame), result);
    }
    if (matcher_.done(state_))
      for (const int32_t id : trie.ends_of_text) set_bit(result, id);
    return result;
  }

  // Tokens that continue after the end of a rule.
  void add_exits(const std::vector<int32_t>& exits, int32_t after, Bits& result) {
    const Trie& trie = masks_->trie();
    for (const int32_t exit : exits) {
      const Trie::Node& node = trie.nodes[size_t(exit)];
      walk(matcher_, trie, exit + 1, node.end, node.depth, after, [&](int32_t i, int32_t) {
        const Trie::Node& reached = trie.nodes[size_t(i)];
        for (int32_t k = 0; k < reached.count; ++k) set_bit(result, trie.ids[size_t(reached.first + k)]);
      });
    }
  }

  std::shared_ptr<RuleMasks> masks_;
  Matcher matcher_;
  int32_t state_;
  bool ended_ = false;
  std::vector<Bits> known_;  // of each state of the matcher; empty: not computed
  size_t mask_count_ = 0;
};

int32_t state_after(Matcher& m, std::string_view text) {
  int32_t state = m.start();
  for (const char c : text) m.restart_work(), state = m.step(state, uint8_t(c));
  return state;
}

}  // namespace
}  // namespace grammar

bool Grammar::matches(std::string_view text) const {
  grammar::Matcher m(*automaton_);
  return m.done(grammar::state_after(m, text));
}

bool Grammar::begins(std::string_view text) const {
  grammar::Matcher m(*automaton_);
  return grammar::state_after(m, text) != grammar::Matcher::kDead;
}

std::shared_ptr<const TokenConstraint> Grammar::constraint(const TokenTrie& tokens) const {
  // The trie lives as long as what was made of it.
  const std::shared_ptr<const grammar::Trie> trie = tokens.shared();
  return std::make_shared<grammar::GrammarConstraint>(std::make_shared<grammar::RuleMasks>(automaton_, trie));
}

}  // namespace toy

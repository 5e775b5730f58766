#include "grammar/constraint.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy::grammar {
namespace {

void set_bit(TokenBits& bits, int32_t i) { bits[size_t(i) / 64] |= uint64_t(1) << (size_t(i) % 64); }

constexpr size_t kLookUpsPerWork = 16;

// Walks the tokens of the nodes [begin, end), siblings and their subtrees, whose parent has `depth` bytes that led to
// `state`. `on_node` sees each node that can be reached, with the state there.
template <class OnNode>
void walk(Matcher& m, const Trie& trie, int32_t begin, int32_t end, size_t depth, int32_t state, OnNode&& on_node) {
  thread_local std::vector<int32_t> at;
  at.resize(size_t(trie.deepest) + 1);
  at[depth] = state;
  size_t visited = 0;
  for (int32_t i = begin; i < end; ++visited) {
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
  m.spend(visited / kLookUpsPerWork);
}

}  // namespace

std::shared_ptr<const RuleMask> RuleMasks::find(const std::vector<RulePlace>& places, size_t& work) {
  const std::lock_guard lock(mutex_);
  if (const auto known = masks_.find(places); known != masks_.end()) return known->second;
  if (masks_.size() * trie_->words() * sizeof(uint64_t) > kMostBytes) masks_.clear();
  if (matcher_.count() > kMostStates || matcher_.size() > Matcher::kMostSize) matcher_ = Matcher(*automaton_);
  matcher_.restart_work(work);
  auto mask = std::make_shared<RuleMask>();
  mask->allowed.resize(trie_->words());
  walk(matcher_, *trie_, 0, int32_t(trie_->nodes.size()), 0, matcher_.inside(places), [&](int32_t i, int32_t state) {
    const Trie::Node& node = trie_->nodes[size_t(i)];
    for (int32_t k = 0; k < node.count; ++k) set_bit(mask->allowed, trie_->ids[size_t(node.first + k)]);
    if (matcher_.done(state) && node.end > i + 1) mask->exits.push_back(i);
  });
  work = matcher_.work();
  masks_.emplace(places, mask);
  return mask;
}

std::unique_ptr<GrammarConstraint> GrammarConstraint::copy() const {
  int32_t state = 0;
  Matcher matcher = matcher_.reduced(state_, state);
  return std::unique_ptr<GrammarConstraint>(new GrammarConstraint(masks_, std::move(matcher), state, ended_, debt_));
}

void GrammarConstraint::mask(std::span<uint64_t> allowed) {
  std::fill(allowed.begin(), allowed.end(), 0);
  if (ended_) return;
  const TokenBits& known = known_mask();
  std::copy_n(known.begin(), std::min(known.size(), allowed.size()), allowed.begin());
}

bool GrammarConstraint::push(std::string_view bytes) {
  int32_t next = ended_ ? Matcher::kDead : state_;
  matcher_.restart_work(debt_);
  for (const char c : bytes) next = matcher_.step(next, uint8_t(c));
  if (next == Matcher::kDead) return false;
  state_ = next;
  debt_ = matcher_.work() - std::min(matcher_.work(), bytes.size() * kWorkOfByte);
  if (matcher_.count() > kMostStates || matcher_.size() > Matcher::kMostSize ||
      mask_count_ * trie().words() * sizeof(uint64_t) > kMostBytes)
    forget();
  return true;
}

void GrammarConstraint::accept(int32_t token) {
  check(token >= 0 && size_t(token) < trie().bytes.size(), "grammar: token {} is outside the vocabulary", token);
  if (std::binary_search(trie().ends_of_text.begin(), trie().ends_of_text.end(), token)) {
    check(matcher_.done(state_) && !ended_, "grammar: the text may not end here");
    ended_ = true;
    return;
  }
  const std::string& bytes = trie().bytes[size_t(token)];
  check(!bytes.empty() && push(bytes), "grammar: token {} may not come here", token);
}

// Keeps what the present state needs only.
void GrammarConstraint::forget() {
  int32_t state = 0;
  matcher_ = matcher_.reduced(state_, state);
  state_ = state;
  known_.clear();
  mask_count_ = 0;
}

const TokenBits& GrammarConstraint::known_mask() {
  if (known_.size() < matcher_.count()) known_.resize(matcher_.count());
  const size_t s = size_t(state_);
  if (!known_[s].empty()) return known_[s];
  ++mask_count_;
  matcher_.restart_work(debt_);
  known_[s] = compute_mask();
  debt_ = matcher_.work();
  return known_[s];
}

TokenBits GrammarConstraint::compute_mask() {
  const Trie& trie = masks_->trie();
  TokenBits result(trie.words());
  const std::vector<Return> ways = matcher_.ways(state_);
  for (size_t i = 0; i < ways.size();) {
    const int32_t frame = ways[i].frame;
    std::vector<RulePlace> places;
    for (; i < ways.size() && ways[i].frame == frame; ++i) {
      const NfaState& s = masks_->automaton().states[size_t(ways[i].state)];
      places.push_back({ways[i].state, masks_->automaton().zone(s, ways[i].count, trie.deepest)});
    }
    size_t work = matcher_.work();
    const auto rule = masks_->find(places, work);
    matcher_.restart_work(work);
    for (size_t w = 0; w < result.size(); ++w) result[w] |= rule->allowed[w];
    if (frame != Matcher::kBottom && !rule->exits.empty()) add_exits(rule->exits, matcher_.after(frame), result);
  }
  if (matcher_.done(state_))
    for (const int32_t id : trie.ends_of_text) set_bit(result, id);
  return result;
}

// Tokens that continue after the end of a rule.
void GrammarConstraint::add_exits(const std::vector<int32_t>& exits, int32_t after, TokenBits& result) {
  const Trie& trie = masks_->trie();
  for (const int32_t exit : exits) {
    const Trie::Node& node = trie.nodes[size_t(exit)];
    walk(matcher_, trie, exit + 1, node.end, node.depth, after, [&](int32_t i, int32_t) {
      const Trie::Node& reached = trie.nodes[size_t(i)];
      for (int32_t k = 0; k < reached.count; ++k) set_bit(result, trie.ids[size_t(reached.first + k)]);
    });
  }
}

LazyConstraint::LazyConstraint(const LazyConstraint& other)
    : begin_(other.begin_),
      triggers_(other.triggers_),
      once_(other.once_),
      finished_(other.finished_),
      untriggered_(other.untriggered_),
      place_(other.place_),
      begun_(other.begun_),
      free_(other.free_),
      from_start_(other.from_start_),
      inside_(other.inside_ ? other.inside_->copy() : nullptr) {}

void LazyConstraint::mask(std::span<uint64_t> allowed) {
  if (inside_)
    inside_->mask(allowed);
  else
    std::fill(allowed.begin(), allowed.end(), finished_ ? 0 : ~uint64_t(0));
}

void LazyConstraint::accept(int32_t token) {
  const Trie& trie = begin_->trie();
  check(!finished_, "grammar: nothing may follow the text");
  const bool ends = std::binary_search(trie.ends_of_text.begin(), trie.ends_of_text.end(), token);
  if (inside_) {
    inside_->accept(token);
    leave();
  } else if (token >= 0 && size_t(token) < trie.bytes.size()) {
    for (const char c : trie.bytes[size_t(token)]) push(c);
  }
  finished_ = finished_ || ends;
}

// Is this byte a part of what stands at the beginning, in which nothing triggers?
bool LazyConstraint::is_untriggered(char c) {
  const bool blank = c == ' ' || c == '\n';
  if (place_ == after_untriggered || (place_ == before_untriggered && begun_.empty() && blank)) return false;
  begun_ += c;
  if (place_ == before_untriggered) {
    if (begun_ == untriggered_.open)
      place_ = in_untriggered, begun_.clear();
    else if (!untriggered_.open.starts_with(begun_))
      place_ = after_untriggered;
    return place_ == in_untriggered;
  }
  if (begun_.ends_with(untriggered_.close)) {
    place_ = after_untriggered;
    free_.clear(), from_start_ = true;
  } else if (begun_.size() > untriggered_.close.size()) {
    begun_.erase(0, 1);
  }
  return true;
}

// After a byte of a token that began outside.
void LazyConstraint::push(char c) {
  if (is_untriggered(c)) return;
  // It may go on after the trigger in a way that the grammar does not know: then it was none.
  if (inside_ && !inside_->push({&c, 1})) inside_.reset();
  if (inside_) return leave();
  free_ += c;
  size_t longest = 0;
  for (const Trigger& t : triggers_) {
    longest = std::max(longest, t.text.size());
    if (!trigger(t)) continue;
    inside_ = begin_->copy();
    if (inside_->push(t.text)) return;
    inside_.reset();
  }
  if (free_.size() > longest) {
    free_.erase(0, free_.size() - longest);
    from_start_ = false;
  }
}

// The text is free again once nothing more may follow in the grammar.
void LazyConstraint::leave() {
  if (!inside_->finished()) return;
  inside_.reset();
  free_.clear();
  from_start_ = false;
  finished_ = once_;
}

bool LazyConstraint::trigger(const Trigger& t) const {
  return free_.ends_with(t.text) && (!t.at_start || (from_start_ && free_.size() == t.text.size()));
}

}  // namespace toy::grammar

#include "grammar/matcher.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "toy/base/error.h"

namespace toy::grammar {
namespace {

constexpr Return kEnd{-1, -1, 0};  // in the list of the frame at the bottom

struct ReturnHash {
  size_t operator()(const Return& r) const {
    const uint64_t h = uint64_t(uint32_t(r.state)) << 32 | uint32_t(r.frame);
    return size_t((h ^ uint64_t(uint32_t(r.count)) << 20) * 0x9E3779B97F4A7C15u >> 13);
  }
};

bool by_frame(const Return& x, const Return& y) {
  return std::tuple(x.frame, x.state, x.count) < std::tuple(y.frame, y.state, y.count);
}

}  // namespace

Matcher::Matcher(const Automaton& automaton) : automaton_(&automaton), classes_(automaton.byte_of.size()) {
  intern({});
  std::fill(next_.begin(), next_.end(), kDead);
  intern_frame({kEnd});
}

int32_t Matcher::intern(State state) {
  const auto [found, is_new] = state_ids_.try_emplace(std::move(state), int32_t(states_.size()));
  if (is_new) {
    size_ += found->first.ways.size();
    states_.push_back(found->first);
    next_.resize(next_.size() + classes_, -1);
  }
  return found->second;
}

int32_t Matcher::intern_frame(std::vector<Return> returns) {
  const auto [found, is_new] = frame_ids_.try_emplace(std::move(returns), int32_t(frames_.size()));
  if (is_new) {
    size_ += found->first.size();
    frames_.push_back(found->first);
    after_.push_back(-1);
  }
  return found->second;
}

int32_t Matcher::start() {
  const int32_t first = automaton_->starts[0];
  const int32_t id = close({{first, kBottom}}, true);
  if (!automaton_->states[size_t(first)].nullable) return id;
  State state = states_[size_t(id)];
  state.done = true;
  return intern(std::move(state));
}

int32_t Matcher::inside(const std::vector<RulePlace>& places) {
  State state;
  for (const RulePlace& p : places) state.ways.push_back({p.state, kBottom, p.count});
  return intern(std::move(state));
}

int32_t Matcher::after(int32_t frame) {
  if (after_[size_t(frame)] < 0) {
    const int32_t id = close(frames_[size_t(frame)], false);
    after_[size_t(frame)] = id;
  }
  return after_[size_t(frame)];
}

int32_t Matcher::compute(int32_t state, uint8_t group) {
  const uint8_t byte = automaton_->byte_of[group];
  std::vector<Return> reached;
  work_ += states_[size_t(state)].ways.size() + 1;
  for (const Return& way : states_[size_t(state)].ways)
    for (const ByteEdge& e : automaton_->states[size_t(way.state)].bytes)
      if (e.lo <= byte && byte <= e.hi) {
        const NfaState& to = automaton_->states[size_t(e.to)];
        const int32_t count = e.counts ? automaton_->counted(to, way.count) : way.count;
        if (!e.counts || automaton_->viable(to, count)) reached.push_back({e.to, way.frame, count});
      }
  const int32_t id = reached.empty() ? kDead : close(reached, false);
  next_[size_t(state) * classes_ + group] = id;
  return id;
}

// All ways that these lead to without a byte. Rules that end return first. Then rules are called in an order in which
// no later one is called by an earlier one (Automaton::order), so the list of a frame is complete when it is made.
// `fresh` ways have read nothing of their rule: its end is that of an empty match, for which the caller has an edge.
int32_t Matcher::close(const std::vector<Return>& begin, bool fresh) {
  const Automaton& a = *automaton_;
  State result;
  std::unordered_set<Return, ReturnHash> seen;
  std::vector<Return> todo;
  std::map<int32_t, std::pair<int32_t, std::vector<Return>>> calls;  // by order: the rule, and where it returns to
  const auto visit = [&](Return way) {
    if (way == kEnd) {
      result.done = true;
      return;
    }
    if (!seen.insert(way).second) return;
    check(seen.size() <= 10 * kMaxWays, "grammar: the text can be read in more than {} ways; make it less ambiguous",
          kMaxWays);
    todo.push_back(way);
  };
  const auto follow = [&](bool is_fresh) {
    while (!todo.empty()) {
      const Return way = todo.back();
      todo.pop_back();
      const NfaState& s = a.states[size_t(way.state)];
      if (!s.bytes.empty()) result.ways.push_back(way);
      for (const int32_t to : s.free)
        if (int32_t count = way.count; a.leads(s, a.states[size_t(to)], count)) visit({to, way.frame, count});
      if (s.accept && !is_fresh)
        for (const Return& r : frames_[size_t(way.frame)]) visit(r);
      if (s.call < 0) continue;
      auto& [rule, returns] = calls[a.order[size_t(s.call)]];
      rule = s.call;
      if (a.states[size_t(s.ret)].tail) {  // what it returns to only returns
        const std::vector<Return>& list = frames_[size_t(way.frame)];
        returns.insert(returns.end(), list.begin(), list.end());
      } else {
        returns.push_back({s.ret, way.frame});
      }
      if (a.states[size_t(a.starts[size_t(s.call)])].nullable) visit({s.ret, way.frame});
    }
  };
  for (const Return& way : begin) visit(way);
  follow(fresh);
  while (!calls.empty()) {
    auto [rule, returns] = std::move(calls.begin()->second);
    calls.erase(calls.begin());
    std::sort(returns.begin(), returns.end());
    returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
    visit({a.starts[size_t(rule)], intern_frame(std::move(returns))});
    follow(true);
  }
  check(result.ways.size() <= kMaxWays, "grammar: the text can be read in more than {} ways; make it less ambiguous",
        kMaxWays);
  spend(seen.size());
  std::sort(result.ways.begin(), result.ways.end(), by_frame);
  return result.ways.empty() && !result.done ? kDead : intern(std::move(result));
}

void Matcher::spend(size_t work) {
  check((work_ += work) <= kMostWork, "grammar: it takes too long to find what may follow; make it less ambiguous");
}

Matcher Matcher::reduced(int32_t state, int32_t& to) const {
  Matcher m(*automaton_);
  // A frame only returns to frames that were made before it.
  std::vector<bool> needed(frames_.size());
  for (const Return& way : states_[size_t(state)].ways) needed[size_t(way.frame)] = true;
  for (size_t f = frames_.size(); f-- > 1;)
    if (needed[f])
      for (const Return& r : frames_[f])
        if (r.frame >= 0) needed[size_t(r.frame)] = true;
  std::vector<int32_t> number(frames_.size(), kBottom);
  for (size_t f = 1; f < frames_.size(); ++f) {
    if (!needed[f]) continue;
    std::vector<Return> returns = frames_[f];
    for (Return& r : returns)
      if (r.frame >= 0) r.frame = number[size_t(r.frame)];
    std::sort(returns.begin(), returns.end());
    number[f] = m.intern_frame(std::move(returns));
  }
  State s = states_[size_t(state)];
  for (Return& way : s.ways) way.frame = number[size_t(way.frame)];
  std::sort(s.ways.begin(), s.ways.end(), by_frame);
  to = s.ways.empty() && !s.done ? kDead : m.intern(std::move(s));
  return m;
}

}  // namespace toy::grammar

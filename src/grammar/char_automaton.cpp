#include "grammar/char_automaton.h"

#include <algorithm>
#include <map>

#include "toy/base/error.h"

namespace toy::grammar {
namespace {

// Steps of the budget: for a state, for an edge with its ranges, for two edges that are compared.
constexpr size_t kState = 20, kEdge = 16, kPair = 2;
size_t edge_cost(const CharSet& set) { return kEdge + set.size(); }

void check_size(size_t states, const std::string& name) {
  check(states <= kMaxCharStates, "{}: it needs more than {} states; use smaller counts, or a shorter pattern", name,
        kMaxCharStates);
}

// With edges that take no code point, as expressions become automata (Thompson 1968).
class Builder {
 public:
  explicit Builder(const Payer& payer) : payer_(payer) {}

  CharAutomaton build(const Expr& e) {
    const int32_t first = add();
    last_ = add_expr(e, first);
    // States without free edges: only those that a code point leads to are kept.
    CharAutomaton result;
    std::map<int32_t, int32_t> number{{first, 0}};
    std::vector<int32_t> todo{first};
    result.states.emplace_back();
    for (size_t i = 0; i < todo.size(); ++i) {
      for (const int32_t s : closure(todo[i])) {
        if (s == last_) result.states[i].accept = true;
        for (const CharEdge& edge : states_[size_t(s)].edges) {
          const auto [found, is_new] = number.try_emplace(edge.to, int32_t(todo.size()));
          if (is_new) {
            todo.push_back(edge.to);
            result.states.emplace_back();
          }
          check_size(++edges_ / 10, payer_.name);
          payer_.spend(edge_cost(edge.set));
          result.states[i].edges.push_back({edge.set, found->second});
        }
      }
    }
    return result;
  }

 private:
  struct State {
    std::vector<CharEdge> edges;
    std::vector<int32_t> free;
  };
  int32_t add() {
    check_size(states_.size() + 1, payer_.name);
    payer_.spend(kState);
    states_.emplace_back();
    return int32_t(states_.size()) - 1;
  }
  void join(int32_t from, int32_t to) { states_[size_t(from)].free.push_back(to); }

  int32_t add_expr(const Expr& e, int32_t from) {
    payer_.spend(1);
    switch (e.kind) {
      case Expr::chars: {
        const int32_t to = add();
        payer_.spend(edge_cost(e.set));
        states_[size_t(from)].edges.push_back({e.set, to});
        return to;
      }
      case Expr::sequence:
        for (const Expr& part : e.parts) from = add_expr(part, from);
        return from;
      case Expr::alternatives: {
        const int32_t end = add();
        for (const Expr& part : e.parts) join(add_expr(part, from), end);
        return end;
      }
      case Expr::repeat: {
        for (int64_t i = 0; i < e.least; ++i) from = add_expr(e.parts[0], from);
        const int32_t end = add();
        if (e.most < 0) {
          join(from, end);
          join(add_expr(e.parts[0], end), end);
          return end;
        }
        for (int64_t i = e.least; i < e.most; ++i) {
          join(from, end);
          from = add_expr(e.parts[0], from);
        }
        join(from, end);
        return end;
      }
      case Expr::rule:
      case Expr::json_string_of:
        break;
    }
    fail_internal("{}: an expression of code points has no rules", payer_.name);
  }

  std::vector<int32_t> closure(int32_t from) {
    std::vector<int32_t> list{from};
    seen_.resize(states_.size(), -1);
    const int32_t turn = ++turn_;
    seen_[size_t(from)] = turn;
    for (size_t i = 0; i < list.size(); ++i) {
      for (const int32_t to : states_[size_t(list[i])].free) {
        payer_.spend(1);
        if (seen_[size_t(to)] == turn) continue;
        seen_[size_t(to)] = turn;
        list.push_back(to);
      }
    }
    return list;
  }

  const Payer& payer_;
  std::vector<State> states_;
  std::vector<int32_t> seen_;
  int32_t last_ = 0, turn_ = -1;
  size_t edges_ = 0;
};

// Without the states from which no text can end.
CharAutomaton trimmed(const CharAutomaton& a) {
  std::vector<std::vector<int32_t>> into(a.states.size());
  std::vector<bool> alive(a.states.size());
  std::vector<int32_t> todo;
  for (size_t s = 0; s < a.states.size(); ++s) {
    for (const CharEdge& e : a.states[s].edges) into[size_t(e.to)].push_back(int32_t(s));
    if (a.states[s].accept) alive[s] = true, todo.push_back(int32_t(s));
  }
  while (!todo.empty()) {
    const int32_t s = todo.back();
    todo.pop_back();
    for (const int32_t p : into[size_t(s)])
      if (!alive[size_t(p)]) alive[size_t(p)] = true, todo.push_back(p);
  }
  std::vector<int32_t> number(a.states.size(), -1);
  CharAutomaton result;
  for (size_t s = 0; s < a.states.size(); ++s) {
    if (!alive[s] && s > 0) continue;
    number[s] = int32_t(result.states.size());
    result.states.push_back({.edges = {}, .accept = a.states[s].accept});
  }
  for (size_t s = 0; s < a.states.size(); ++s)
    for (const CharEdge& e : a.states[s].edges)
      if (number[s] >= 0 && alive[size_t(e.to)])
        result.states[size_t(number[s])].edges.push_back({e.set, number[size_t(e.to)]});
  return result;
}

}  // namespace

bool CharAutomaton::empty() const {
  const CharAutomaton t = trimmed(*this);
  return t.states.size() == 1 && !t.states[0].accept && t.states[0].edges.empty();
}

CharAutomaton char_automaton(const Expr& e, const Payer& payer) { return trimmed(Builder(payer).build(e)); }

CharAutomaton intersection(const CharAutomaton& a, const CharAutomaton& b, const Payer& payer) {
  CharAutomaton result;
  std::map<std::pair<int32_t, int32_t>, int32_t> number{{{0, 0}, 0}};
  std::vector<std::pair<int32_t, int32_t>> todo{{0, 0}};
  result.states.emplace_back();
  size_t edges = 0;
  for (size_t i = 0; i < todo.size(); ++i) {
    const CharAutomaton::State &x = a.states[size_t(todo[i].first)], &y = b.states[size_t(todo[i].second)];
    result.states[i].accept = x.accept && y.accept;
    for (const CharEdge& e : x.edges) {
      for (const CharEdge& f : y.edges) {
        payer.spend(kPair + e.set.size() + f.set.size());
        CharSet both = intersection(e.set, f.set);
        if (both.empty()) continue;
        check_size(++edges / 10, payer.name);
        payer.spend(edge_cost(both));
        const auto [found, is_new] = number.try_emplace({e.to, f.to}, int32_t(todo.size()));
        if (is_new) {
          check_size(todo.size() + 1, payer.name);
          payer.spend(kState);
          todo.push_back({e.to, f.to});
          result.states.emplace_back();
        }
        result.states[i].edges.push_back({std::move(both), found->second});
      }
    }
  }
  return trimmed(result);
}

CharAutomaton length_automaton(int64_t least, int64_t most, const Payer& payer) {
  const CharSet any{{0, kLastCodePoint}};
  const int64_t count = most < 0 ? least : most;
  check_size(count < 0 || count > int64_t(kMaxCharStates) ? kMaxCharStates + 1 : size_t(count) + 1, payer.name);
  payer.spend(size_t(count + 1) * (kState + kEdge));
  CharAutomaton a;
  for (int64_t i = 0; i <= count; ++i) {
    a.states.push_back({.edges = {}, .accept = i >= least});
    if (i < count) a.states.back().edges.push_back({any, int32_t(i) + 1});
  }
  if (most < 0) a.states.back().edges.push_back({any, int32_t(count)});
  return trimmed(a);
}

CharAutomaton all_but(const std::vector<std::string>& texts, const Payer& payer) {
  CharAutomaton a;
  const CharSet any{{0, kLastCodePoint}};
  a.states.resize(2);  // the root of a tree of the texts, and what is in none of them
  a.states[1] = {.edges = {{any, 1}}, .accept = true};
  std::vector<std::map<uint32_t, int32_t>> tree(2);
  std::vector<bool> ends(2);
  for (const std::string& text : texts) {
    payer.spend(text.size() * 2 * (kState + kEdge));
    int32_t at = 0;
    for (const uint32_t c : code_points(text, "a name")) {
      const auto [found, is_new] = tree[size_t(at)].try_emplace(c, int32_t(tree.size()));
      at = found->second;
      if (!is_new) continue;
      tree.emplace_back();
      ends.push_back(false);
    }
    ends[size_t(at)] = true;
  }
  a.states.resize(tree.size());
  for (size_t s = 0; s < tree.size(); ++s) {
    if (s == 1) continue;
    CharSet known;
    for (const auto& [c, to] : tree[s]) {
      a.states[s].edges.push_back({{{c, c}}, to});
      known.push_back({c, c});
    }
    a.states[s].edges.push_back({complement(normalized(known)), 1});
    a.states[s].accept = !ends[s];
  }
  return a;
}

}  // namespace toy::grammar

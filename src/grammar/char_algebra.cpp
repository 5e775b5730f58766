// Sets of texts: what is in several of them, in none, and how long they are.
#include <algorithm>
#include <map>

#include "grammar/char_automaton.h"
#include "grammar/char_costs.h"
#include "toy/base/error.h"

namespace toy::grammar {
namespace {

// Edges of several states as disjoint sets of code points, each with where it leads to.
struct Split {
  CharSet set;
  std::vector<int32_t> to;
};
std::vector<Split> split_edges(const CharAutomaton& a, const std::vector<int32_t>& states, const Payer& payer) {
  std::vector<std::pair<uint32_t, int32_t>> begins, ends;  // an edge's ranges, by where they begin and end
  for (const int32_t s : states)
    for (const CharEdge& e : a.states[size_t(s)].edges) {
      payer.spend(edge_cost(e.set) * 2);
      for (const CharRange r : e.set) begins.push_back({r.lo, e.to}), ends.push_back({r.hi + 1, e.to});
    }
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  std::map<std::vector<int32_t>, CharSet> by_target;
  std::map<int32_t, int> open;  // targets, and how many ranges lead there
  size_t b = 0, e = 0;
  uint32_t at = 0;
  while (e < ends.size()) {
    const uint32_t next = b < begins.size() ? std::min(begins[b].first, ends[e].first) : ends[e].first;
    if (next > at && !open.empty()) {
      std::vector<int32_t> to;
      for (const auto& [target, count] : open) to.push_back(target);
      payer.spend(to.size() * kPair + kEdge);
      by_target[std::move(to)].push_back({at, next - 1});
    }
    at = next;
    for (; b < begins.size() && begins[b].first == at; ++b) ++open[begins[b].second];
    for (; e < ends.size() && ends[e].first == at; ++e)
      if (--open[ends[e].second] == 0) open.erase(ends[e].second);
  }
  std::vector<Split> result;
  for (auto& [to, set] : by_target) result.push_back({normalized(std::move(set)), to});
  return result;
}

}  // namespace

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

CharAutomaton merged(CharAutomaton a, const Payer& payer) {
  const auto edge_key = [](const CharEdge& e) {
    std::vector<uint32_t> key{uint32_t(e.to)};
    for (const CharRange r : e.set) key.push_back(r.lo), key.push_back(r.hi);
    return key;
  };
  for (size_t before = a.states.size() + 1; a.states.size() < before;) {
    before = a.states.size();
    std::map<std::pair<bool, std::vector<std::vector<uint32_t>>>, int32_t> known;
    std::vector<int32_t> number;
    CharAutomaton result;
    for (CharAutomaton::State& s : a.states) {
      std::vector<std::vector<uint32_t>> edges;
      for (const CharEdge& e : s.edges) payer.spend(edge_cost(e.set)), edges.push_back(edge_key(e));
      std::sort(edges.begin(), edges.end());
      const auto [found, is_new] = known.try_emplace({s.accept, std::move(edges)}, int32_t(result.states.size()));
      if (is_new) result.states.push_back(std::move(s));
      number.push_back(found->second);
    }
    for (CharAutomaton::State& s : result.states)
      for (CharEdge& e : s.edges) e.to = number[size_t(e.to)];
    a = std::move(result);
  }
  return a;
}

bool CharAutomaton::empty() const {
  const CharAutomaton t = trimmed(*this);
  return t.states.size() == 1 && !t.states[0].accept && t.states[0].edges.empty();
}

bool CharAutomaton::matches(const std::vector<uint32_t>& text, const Payer& payer) const {
  std::vector<int32_t> at{0}, next;
  for (const uint32_t c : text) {
    next.clear();
    for (const int32_t s : at)
      for (const CharEdge& e : states[size_t(s)].edges) {
        payer.spend(kPair);
        const auto r =
            std::upper_bound(e.set.begin(), e.set.end(), c, [](uint32_t x, CharRange y) { return x < y.lo; });
        if (r != e.set.begin() && c <= std::prev(r)->hi) next.push_back(e.to);
      }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    at.swap(next);
  }
  return std::any_of(at.begin(), at.end(), [&](int32_t s) { return states[size_t(s)].accept; });
}

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
        payer.pay_edge(both);
        const auto [found, is_new] = number.try_emplace({e.to, f.to}, int32_t(todo.size()));
        if (is_new) {
          check_size(todo.size() + 1, payer.name);
          payer.spend(kState);
          payer.spend_bytes(sizeof(CharAutomaton::State));
          todo.push_back({e.to, f.to});
          result.states.emplace_back();
        }
        result.states[i].edges.push_back({std::move(both), found->second});
      }
    }
  }
  return trimmed(result);
}

CharAutomaton either(const CharAutomaton& a, const CharAutomaton& b, const Payer& payer) {
  CharAutomaton result;
  result.states.push_back({.edges = {}, .accept = a.states[0].accept || b.states[0].accept});
  for (const CharAutomaton* part : {&a, &b}) {
    const int32_t first = int32_t(result.states.size());
    check_size(result.states.size() + part->states.size(), payer.name);
    for (const CharAutomaton::State& s : part->states) {
      payer.spend(kState);
      result.states.push_back({.edges = s.edges, .accept = s.accept});
      for (CharEdge& e : result.states.back().edges) payer.pay_edge(e.set), e.to += first;
    }
    const CharAutomaton::State& begin = result.states[size_t(first)];
    result.states[0].edges.insert(result.states[0].edges.end(), begin.edges.begin(), begin.edges.end());
  }
  return trimmed(result);
}

CharAutomaton complement(const CharAutomaton& a, const Payer& payer) {
  CharAutomaton result;
  std::map<std::vector<int32_t>, int32_t> number{{{0}, 0}};
  std::vector<std::vector<int32_t>> todo{{0}};
  result.states.emplace_back();
  const auto visit = [&](const std::vector<int32_t>& states) {
    const auto [found, is_new] = number.try_emplace(states, int32_t(todo.size()));
    if (is_new) {
      check_size(todo.size() + 1, payer.name);
      payer.spend(kState + states.size() * kPair);
      payer.spend_bytes(sizeof(CharAutomaton::State) + states.size() * 2 * sizeof(int32_t));
      todo.push_back(states);
      result.states.emplace_back();
    }
    return found->second;
  };
  size_t edges = 0;
  for (size_t i = 0; i < todo.size(); ++i) {
    result.states[i].accept =
        std::none_of(todo[i].begin(), todo[i].end(), [&](int32_t s) { return a.states[size_t(s)].accept; });
    CharSet known;
    std::vector<CharEdge> list;
    for (Split& s : split_edges(a, todo[i], payer)) {
      known.insert(known.end(), s.set.begin(), s.set.end());
      const int32_t to = visit(s.to);
      list.push_back({std::move(s.set), to});
    }
    CharSet others = complement(normalized(std::move(known)));
    if (!others.empty()) {
      const int32_t to = visit({});
      list.push_back({std::move(others), to});
    }
    for (const CharEdge& e : list) payer.pay_edge(e.set);
    check_size((edges += list.size()) / 10, payer.name);
    result.states[i].edges = std::move(list);
  }
  return trimmed(result);
}

CharAutomaton length_automaton(int64_t least, int64_t most, const Payer& payer) {
  const CharSet any{{0, kLastCodePoint}};
  const int64_t count = most < 0 ? least : most;
  check_size(count < 0 || count > int64_t(kMaxCharStates) ? kMaxCharStates + 1 : size_t(count) + 1, payer.name);
  payer.spend(size_t(count + 1) * (kState + kEdge));
  payer.spend_bytes(size_t(count + 1) * (sizeof(CharAutomaton::State) + sizeof(CharEdge) + sizeof(CharRange)));
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
    payer.spend_bytes(text.size() * (sizeof(CharAutomaton::State) + 2 * sizeof(CharEdge)));
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

Lengths lengths_of(const CharAutomaton& a, const Payer& payer) {
  constexpr size_t kMostSteps = 400;
  const size_t n = a.states.size();
  std::vector<std::vector<bool>> reaches{std::vector<bool>(n)};  // an end, in so many steps
  for (size_t s = 0; s < n; ++s) reaches[0][s] = a.states[s].accept;
  for (;;) {
    std::vector<bool> now(n);
    for (size_t s = 0; s < n; ++s) {
      payer.spend(1 + a.states[s].edges.size());
      for (const CharEdge& e : a.states[s].edges) now[s] = now[s] || reaches.back()[size_t(e.to)];
    }
    if (now == reaches.back()) break;
    reaches.push_back(std::move(now));
    payer.spend_bytes(n / 8 + 32);
    if (reaches.size() > kMostSteps) return {};
  }
  Lengths r{int32_t(reaches.size()), {}, reaches.back()};
  payer.spend(n * reaches.size());
  payer.spend_bytes(n * reaches.size() * sizeof(int32_t));
  r.next.resize(n * reaches.size());
  for (size_t s = 0; s < n; ++s) {
    int32_t next = r.endless[s] ? r.horizon : Lengths::kNone;
    for (size_t k = reaches.size(); k-- > 0;) {
      if (reaches[k][s]) next = int32_t(k);
      r.next[s * reaches.size() + k] = next;
    }
  }
  return r;
}

}  // namespace toy::grammar

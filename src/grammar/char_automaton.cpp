#include "grammar/char_automaton.h"

#include <algorithm>
#include <map>

#include "grammar/char_costs.h"
#include "toy/base/error.h"

namespace toy::grammar {
namespace {

const CharSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
// What comes before a place of the text, and a set of what may follow it.
enum Before : int32_t { nothing, no_word, word };
enum After : uint8_t { a_word = 1, another = 2, the_end = 4, anything = 7 };

// With edges that take no code point, as expressions become automata (Thompson 1968).
class Builder {
 public:
  explicit Builder(const Payer& payer) : payer_(payer) {}

  CharAutomaton build(const Expr& e) {
    look_for_edges(e);
    const int32_t first = add();
    last_ = add_expr(e, first);
    // States without free edges: only those that a code point leads to are kept.
    CharAutomaton result;
    std::map<std::pair<int32_t, int32_t>, int32_t> number{{{first, nothing}, 0}};
    std::vector<std::pair<int32_t, int32_t>> todo{{first, nothing}};
    result.states.emplace_back();
    const auto lead = [&](size_t from, CharSet set, int32_t to, Before before) {
      if (set.empty()) return;
      const auto [found, is_new] = number.try_emplace({to, before}, int32_t(todo.size()));
      if (is_new) {
        payer_.spend_bytes(sizeof(CharAutomaton::State));
        todo.push_back({to, before});
        result.states.emplace_back();
      }
      check_size(++edges_ / 10, payer_.name);
      payer_.pay_edge(set);
      result.states[from].edges.push_back({std::move(set), found->second});
    };
    for (size_t i = 0; i < todo.size(); ++i) {
      for (const auto& [s, after] : closure(todo[i].first, Before(todo[i].second))) {
        if (s == last_ && (after & the_end)) result.states[i].accept = true;
        for (const CharEdge& edge : states_[size_t(s)].edges) {
          CharSet set = edge.set;
          if (!(after & a_word)) set = intersection(set, complement(kWord));
          if (!(after & another)) set = intersection(set, kWord);
          if (has_word_edges_) {
            lead(i, intersection(set, kWord), edge.to, word);
            set = intersection(set, complement(kWord));
          }
          lead(i, std::move(set), edge.to, no_word);
        }
      }
    }
    return result;
  }

 private:
  struct State {
    std::vector<CharEdge> edges;
    std::vector<int32_t> free;
    Expr::Kind at = Expr::sequence;  // the place where the free edges may be taken, if it is one
  };
  int32_t add() {
    check_size(states_.size() + 1, payer_.name);
    payer_.spend(kState);
    payer_.spend_bytes(sizeof(State));
    states_.emplace_back();
    return int32_t(states_.size()) - 1;
  }
  void join(int32_t from, int32_t to) { states_[size_t(from)].free.push_back(to); }

  int32_t add_expr(const Expr& e, int32_t from) {
    payer_.spend(1);
    switch (e.kind) {
      case Expr::chars: {
        const int32_t to = add();
        payer_.pay_edge(e.set);
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
      case Expr::texts: {
        const int32_t end = add();
        std::vector<int32_t> path{from};  // after each code point of the text before
        std::vector<uint32_t> before;
        for (const std::string& text : *e.list) {  // sorted: they share their beginnings
          std::vector<uint32_t> points = code_points(text, payer_.name);
          const size_t shared =
              size_t(std::mismatch(points.begin(), points.end(), before.begin(), before.end()).first - points.begin());
          path.resize(shared + 1);
          for (size_t i = shared; i < points.size(); ++i) {
            path.push_back(add());
            payer_.pay_edge({{points[i], points[i]}});
            states_[size_t(path[i])].edges.push_back({{{points[i], points[i]}}, path.back()});
          }
          join(path.back(), end);
          before = std::move(points);
        }
        return end;
      }
      case Expr::text_begin:
      case Expr::text_end:
      case Expr::word_edge:
      case Expr::no_word_edge: {
        const int32_t place = add(), end = add();
        join(from, place);
        join(place, end);
        states_[size_t(place)].at = e.kind;
        return end;
      }
      case Expr::rule:
      case Expr::json_string_of:
        break;
    }
    fail_internal("{}: an expression of code points has no rules", payer_.name);
  }

  void look_for_edges(const Expr& e) {
    has_word_edges_ = has_word_edges_ || e.kind == Expr::word_edge || e.kind == Expr::no_word_edge;
    for (const Expr& part : e.parts) look_for_edges(part);
  }

  // What may follow where a place is passed.
  static uint8_t passed(Expr::Kind place, Before before, uint8_t after) {
    const bool edge = place == Expr::word_edge;
    switch (place) {
      case Expr::text_begin:
        return before == nothing ? after : 0;
      case Expr::text_end:
        return after & the_end;
      case Expr::word_edge:
      case Expr::no_word_edge:
        return after & ((before == word) != edge ? a_word : another | the_end);
      default:
        return after;
    }
  }

  // The states that are reached without a code point, each with what may follow there.
  std::vector<std::pair<int32_t, uint8_t>> closure(int32_t from, Before before) {
    std::vector<std::pair<int32_t, uint8_t>> list{{from, anything}};
    seen_.resize(states_.size() * 8, -1);
    const int32_t turn = ++turn_;
    seen_[size_t(from) * 8 + anything] = turn;
    for (size_t i = 0; i < list.size(); ++i) {
      const State& s = states_[size_t(list[i].first)];
      const uint8_t after = passed(s.at, before, list[i].second);
      if (after == 0) continue;
      for (const int32_t to : s.free) {
        payer_.spend(1);
        int32_t& seen = seen_[size_t(to) * 8 + after];
        if (seen == turn) continue;
        seen = turn;
        list.push_back({to, after});
      }
    }
    return list;
  }

  const Payer& payer_;
  std::vector<State> states_;
  std::vector<int32_t> seen_;
  bool has_word_edges_ = false;
  int32_t last_ = 0, turn_ = -1;
  size_t edges_ = 0;
};

}  // namespace

CharAutomaton char_automaton(const Expr& e, const Payer& payer) { return trimmed(Builder(payer).build(e)); }

Expr json_string_of(CharAutomaton a, int64_t least, int64_t most) {
  return {.kind = Expr::json_string_of,
          .least = least,
          .most = most,
          .automaton = std::make_shared<const CharAutomaton>(std::move(a))};
}

}  // namespace toy::grammar

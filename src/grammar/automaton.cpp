#include "grammar/automaton.h"

#include <algorithm>
#include <map>

#include "grammar/char_automaton.h"
#include "grammar/json_text.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

// Ranges of code points as sequences of ranges of bytes. After Unicode's table 3-7, surrogates are left out.
class Utf8Ranges {
 public:
  using Sequence = std::vector<CharRange>;  // of bytes
  explicit Utf8Ranges(const CharSet& set) {
    static const CharSet kByLength{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
    for (const CharRange length : kByLength)
      for (const CharRange r : intersection({length}, set)) split(r.lo, r.hi);
  }
  std::vector<Sequence> sequences;

 private:
  void split(uint32_t lo, uint32_t hi) {
    for (int level = 1; level <= 3 && hi > 0x7F; ++level) {
      const uint32_t low = (1u << (6 * level)) - 1;
      if ((lo & ~low) == (hi & ~low)) continue;
      if ((lo & low) != 0) return split(lo, lo | low), split((lo | low) + 1, hi);
      if ((hi & low) != low) return split(lo, (hi & ~low) - 1), split(hi & ~low, hi);
    }
    const std::string a = utf8_encode(lo), b = utf8_encode(hi);
    Sequence s;
    for (size_t i = 0; i < a.size(); ++i) s.push_back({uint8_t(a[i]), uint8_t(b[i])});
    sequences.push_back(std::move(s));
  }
};

class Compiler {
 public:
  Compiler(const std::vector<Rule>& rules, const std::string& name, GrammarBudget& budget)
      : name_(name), budget_(budget) {
    for (const Rule& r : rules) {
      a_.names.push_back(r.name);
      a_.starts.push_back(add_state());
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      place_ = place_of(int32_t(i));
      a_.states[size_t(build(rules[i].expr, a_.starts[i]))].accept = true;
    }
    place_ = name_;
    find_alive();
    find_nullable();
    find_tails();
    order_rules();
    group_bytes();
  }
  Automaton take() { return std::move(a_); }

 private:
  // "NAME: RULE"; that of a schema is a JSON pointer.
  std::string place_of(int32_t rule) const {
    const std::string& r = a_.names[size_t(rule)];
    return r.empty() ? name_ : name_ + ": " + r;
  }

  int32_t add_state() {
    check(a_.states.size() < kMaxStates,
          "{}: the grammar needs more than {} states; use smaller counts, or fewer alternatives", place_, kMaxStates);
    budget_.spend(kState, place_);
    budget_.spend_bytes(sizeof(NfaState), place_);
    a_.states.emplace_back();
    return int32_t(a_.states.size()) - 1;
  }
  NfaState& at(int32_t s) { return a_.states[size_t(s)]; }
  void join(int32_t from, int32_t to) { at(from).free.push_back(to); }
  void add_byte(int32_t from, ByteEdge edge) {
    budget_.spend_bytes(2 * sizeof(ByteEdge), place_);
    at(from).bytes.push_back(edge);
  }

  // Adds what `e` needs behind the state `from`, into which nothing new leads. Returns the state after it.
  int32_t build(const Expr& e, int32_t from) {
    budget_.spend(1, place_);
    switch (e.kind) {
      case Expr::chars: {
        const int32_t end = add_state();
        add_chars(from, e.set, end);
        return end;
      }
      case Expr::texts:
        return build_texts(*e.list, from);
      case Expr::sequence:
        for (const Expr& part : e.parts) from = build(part, from);
        return from;
      case Expr::alternatives: {
        const int32_t end = add_state();
        for (const Expr& part : e.parts) join(build(part, from), end);
        return end;
      }
      case Expr::repeat:
        return build_repeat(e, from);
      case Expr::rule: {
        const int32_t site = add_state(), end = add_state();
        join(from, site);
        at(site).call = e.rule_index, at(site).ret = end;
        return end;
      }
      case Expr::json_string_of:
        return build_json(e, from);
      case Expr::text_begin:
      case Expr::text_end:
      case Expr::word_edge:
      case Expr::no_word_edge:
        break;
    }
    fail_internal("{}: a place of a text is for patterns only", place_);
  }

  // Sorted texts as a tree of their bytes.
  int32_t build_texts(const std::vector<std::string>& texts, int32_t from) {
    const int32_t end = add_state();
    std::vector<int32_t> path{from};  // after each byte of the text before
    std::string_view before;
    for (const std::string& text : texts) {
      budget_.spend(1 + text.size(), place_);
      const auto common =
          std::mismatch(text.begin(), text.begin() + int64_t(std::min(text.size(), before.size())), before.begin());
      path.resize(size_t(common.first - text.begin()) + 1);
      for (size_t i = path.size() - 1; i < text.size(); ++i) {
        const int32_t to = add_state();
        add_byte(path.back(), {.lo = uint8_t(text[i]), .hi = uint8_t(text[i]), .to = to});
        path.push_back(to);
      }
      join(path.back(), end);
      before = text;
    }
    return end;
  }

  int32_t build_repeat(const Expr& e, int32_t from) {
    for (int64_t i = 0; i < e.least; ++i) from = build(e.parts[0], from);
    if (e.most < 0) {
      const int32_t loop = add_state();
      join(from, loop);
      join(build(e.parts[0], loop), loop);
      return loop;
    }
    const int32_t end = add_state();
    for (int64_t i = e.least; i < e.most; ++i) {
      join(from, end);
      from = build(e.parts[0], from);
    }
    join(from, end);
    return end;
  }

  int32_t build_json(const Expr& e, int32_t from) {
    const CharAutomaton* chars = e.automaton.get();
    CharAutomaton product;
    const int32_t counter = e.least > 0 || e.most >= 0 ? add_counter(*chars, e.least, e.most, product) : -1;
    if (!product.states.empty()) chars = &product;
    const auto count = [&](int32_t in, int32_t row) {
      if (counter >= 0) at(in).counter = counter, at(in).row = row;
    };
    std::vector<int32_t> state(chars->states.size());
    for (size_t s = 0; s < state.size(); ++s) count(state[s] = add_state(), int32_t(s));
    const int32_t end = add_state();
    if (counter < 0 || a_.viable(at(state[0]), 0)) join(from, state[0]);
    for (size_t s = 0; s < chars->states.size(); ++s) {
      if (chars->states[s].accept) join(state[s], end);
      for (const CharEdge& edge : chars->states[s].edges) {
        budget_.spend(edge.set.size() * kRange, place_);
        const JsonChars j = json_chars(edge.set);
        const int32_t to = state[size_t(edge.to)];
        add_chars(state[s], j.plain, to);
        if (j.letters.empty() && j.controls.empty()) continue;
        const int32_t backslash = add_state();
        count(backslash, edge.to);
        add_byte(state[s], {.lo = '\\', .hi = '\\', .counts = counter >= 0, .to = backslash});
        for (const char c : j.letters) add_byte(backslash, {.lo = uint8_t(c), .hi = uint8_t(c), .to = to});
        const auto next = [&](int32_t before, char lo, char hi) {
          const int32_t after = add_state();
          count(after, edge.to);
          add_byte(before, {.lo = uint8_t(lo), .hi = uint8_t(hi), .to = after});
          return after;
        };
        int32_t tens[2] = {-1, -1};  // \u000 and \u001
        for (const char c : j.controls) {
          int32_t& ten = tens[c / 16];
          if (ten < 0)
            ten =
                next(next(next(next(backslash, 'u', 'u'), '0', '0'), '0', '0'), char('0' + c / 16), char('0' + c / 16));
          const char digit = "0123456789abcdef"[c % 16];
          add_byte(ten, {.lo = uint8_t(digit), .hi = uint8_t(digit), .to = to});
        }
      }
    }
    return end;
  }

  // -1: all texts have such lengths, or `product` is those of them that do.
  int32_t add_counter(const CharAutomaton& chars, int64_t least, int64_t most, CharAutomaton& product) {
    const Payer payer{place_, budget_};
    Counter c{
        .least = int32_t(least), .most = most < 0 ? kNoLimit : int32_t(most), .lengths = lengths_of(chars, payer)};
    const Lengths& l = c.lengths;
    if (l.horizon == 0) {  // a state is needed once per length, as far as there are any
      product = intersection(chars, length_automaton(least, most, payer), payer);
      return -1;
    }
    const bool in_bounds =
        l.at_least(0, 0) >= least && (most < 0 || l.at_least(0, int32_t(most) + 1) == Lengths::kNone);
    if (in_bounds) return -1;
    for (size_t s = 0; s < chars.states.size(); ++s) c.farthest = std::max(c.farthest, l.at_least(s, 0));
    c.open = std::all_of(l.endless.begin(), l.endless.end(), [](bool b) { return b; }) &&
             (c.most == kNoLimit || int64_t(c.least) + l.horizon <= c.most);
    a_.counters.push_back(std::move(c));
    return int32_t(a_.counters.size()) - 1;
  }

  void add_chars(int32_t from, const CharSet& set, int32_t to) {
    std::map<std::vector<uint32_t>, int32_t> shared;  // what leads to `to` by the same bytes
    budget_.spend(set.size() * kRange, place_);
    for (const Utf8Ranges::Sequence& bytes : Utf8Ranges(set).sequences) {
      budget_.spend(kRange, place_);
      int32_t next = to;
      std::vector<uint32_t> key;
      for (size_t i = bytes.size(); i-- > 0;) {
        const auto [lo, hi] = bytes[i];
        if (i == 0) {
          add_byte(from, {.lo = uint8_t(lo), .hi = uint8_t(hi), .counts = at(from).counter >= 0, .to = next});
          break;
        }
        key.push_back(lo << 8 | hi);
        const auto [found, is_new] = shared.try_emplace(key, -1);
        if (is_new) {
          found->second = add_state();
          NfaState &middle = at(found->second), &target = at(to);  // within a character
          middle.counter = target.counter, middle.row = target.row;
          add_byte(found->second, {.lo = uint8_t(lo), .hi = uint8_t(hi), .to = next});
        }
        next = found->second;
      }
    }
  }

  // States that lead to others: without a byte, and with one (if `bytes`). Calls are in calls_to_ and returns_to_.
  std::vector<std::vector<int32_t>> backwards(bool bytes) const {
    std::vector<std::vector<int32_t>> into(a_.states.size());
    for (size_t s = 0; s < a_.states.size(); ++s) {
      for (const int32_t to : a_.states[s].free) into[size_t(to)].push_back(int32_t(s));
      if (bytes)
        for (const ByteEdge& e : a_.states[s].bytes) into[size_t(e.to)].push_back(int32_t(s));
    }
    return into;
  }

  // Marks the states from which the end of their rule can be reached, by any edges or by those without bytes.
  void mark(bool NfaState::*flag, bool bytes) {
    const auto into = backwards(bytes);
    std::vector<std::vector<int32_t>> calls(a_.starts.size()), returns(a_.states.size());
    std::map<int32_t, int32_t> rule_of;  // of a start
    for (size_t r = 0; r < a_.starts.size(); ++r) rule_of[a_.starts[r]] = int32_t(r);
    std::vector<int32_t> todo;
    const auto reach = [&](int32_t s) {
      if (at(s).*flag) return;
      at(s).*flag = true;
      todo.push_back(s);
    };
    for (size_t s = 0; s < a_.states.size(); ++s) {
      if (a_.states[s].call >= 0) {
        calls[size_t(a_.states[s].call)].push_back(int32_t(s));
        returns[size_t(a_.states[s].ret)].push_back(int32_t(s));
      }
      if (a_.states[s].accept) reach(int32_t(s));
    }
    while (!todo.empty()) {
      const int32_t s = todo.back();
      todo.pop_back();
      for (const int32_t p : into[size_t(s)]) reach(p);
      for (const int32_t p : returns[size_t(s)])
        if (at(a_.starts[size_t(at(p).call)]).*flag) reach(p);
      if (const auto r = rule_of.find(s); r != rule_of.end())
        for (const int32_t p : calls[size_t(r->second)])
          if (at(at(p).ret).*flag) reach(p);
    }
  }

  // A rule without a text, of which that of the first rule comes.
  int32_t impossible_rule() {
    std::vector<bool> seen(a_.starts.size()), reached(a_.states.size());
    for (int32_t rule = 0;;) {
      seen[size_t(rule)] = true;
      std::vector<int32_t> todo{a_.starts[size_t(rule)]};
      const auto reach = [&](int32_t s) {
        if (!reached[size_t(s)]) reached[size_t(s)] = true, todo.push_back(s);
      };
      int32_t next = -1;
      while (next < 0 && !todo.empty()) {
        const NfaState& s = at(todo.back());
        todo.pop_back();
        for (const int32_t to : s.free) reach(to);
        for (const ByteEdge& e : s.bytes) reach(e.to);
        if (s.call < 0) continue;
        if (at(a_.starts[size_t(s.call)]).alive)
          reach(s.ret);
        else if (!seen[size_t(s.call)])
          next = s.call;
      }
      if (next < 0) return rule;
      rule = next;
    }
  }

  void find_alive() {
    mark(&NfaState::alive, true);
    if (!at(a_.starts[0]).alive)
      fail("{}: no text satisfies it, among those that can be written: some rule never ends, or allows nothing",
           place_of(impossible_rule()));
    for (NfaState& s : a_.states) {  // what leads nowhere goes
      std::erase_if(s.free, [&](int32_t to) { return !at(to).alive; });
      std::erase_if(s.bytes, [&](const ByteEdge& e) { return !at(e.to).alive; });
      if (s.call >= 0 && (!at(s.ret).alive || !at(a_.starts[size_t(s.call)]).alive)) s.call = s.ret = -1;
    }
  }
  void find_nullable() { mark(&NfaState::nullable, false); }

  // The states that `from` reaches without a byte, calls of rules that may be empty included.
  std::vector<int32_t> reached(int32_t from) {
    std::vector<int32_t> list{from};
    seen_.resize(a_.states.size(), -1);
    const int32_t turn = ++turn_;
    seen_[size_t(from)] = turn;
    const auto visit = [&](int32_t s) {
      if (seen_[size_t(s)] == turn) return;
      seen_[size_t(s)] = turn;
      list.push_back(s);
    };
    for (size_t i = 0; i < list.size(); ++i) {
      const NfaState& s = at(list[i]);
      for (const int32_t to : s.free) visit(to);
      if (s.call >= 0 && at(a_.starts[size_t(s.call)]).nullable) visit(s.ret);
    }
    return list;
  }

  // Chains of states without bytes that end a rule. Found backwards from what certainly does, so in linear time.
  void find_tails() {
    const auto into = backwards(false);
    std::vector<int32_t> todo;
    std::vector<size_t> others(a_.states.size());  // free edges to what is no tail
    const auto visit = [&](int32_t s) {
      if (others[size_t(s)] > 0 || !at(s).alive || !at(s).bytes.empty() || at(s).call >= 0) return;
      at(s).tail = true;
      todo.push_back(s);
    };
    for (size_t s = 0; s < a_.states.size(); ++s) others[s] = a_.states[s].free.size();
    for (size_t s = 0; s < a_.states.size(); ++s)
      if (a_.states[s].accept && others[s] == 0) visit(int32_t(s));
    while (!todo.empty()) {
      const int32_t s = todo.back();
      todo.pop_back();
      for (const int32_t p : into[size_t(s)])
        if (--others[size_t(p)] == 0) visit(p);
    }
  }

  // Rules in an order in which those that another one may begin with come after it.
  void order_rules() {
    const size_t n = a_.starts.size();
    std::vector<std::vector<int32_t>> begins(n);
    for (size_t r = 0; r < n; ++r) {
      if (!at(a_.starts[r]).alive) continue;
      for (const int32_t s : reached(a_.starts[r])) {
        budget_.spend(1 + at(s).free.size(), name_);
        if (at(s).call >= 0) begins[r].push_back(at(s).call);
      }
      std::sort(begins[r].begin(), begins[r].end());
      begins[r].erase(std::unique(begins[r].begin(), begins[r].end()), begins[r].end());
    }
    std::vector<int> colour(n);  // 1: on the path, 2: done
    std::vector<std::pair<int32_t, size_t>> path;
    std::vector<int32_t> done;
    for (size_t root = 0; root < n; ++root) {
      if (colour[root] != 0) continue;
      path.push_back({int32_t(root), 0});
      colour[root] = 1;
      while (!path.empty()) {
        auto& [r, i] = path.back();
        if (i == begins[size_t(r)].size()) {
          colour[size_t(r)] = 2;
          done.push_back(r);
          path.pop_back();
          continue;
        }
        const int32_t next = begins[size_t(r)][i++];
        check(colour[size_t(next)] != 1,
              "{}: '{}' may begin with itself (left recursion); put something that takes a character in front of it",
              name_, a_.names[size_t(next)]);
        if (colour[size_t(next)] == 0) {
          colour[size_t(next)] = 1;
          path.push_back({next, 0});
        }
      }
    }
    a_.order.resize(n);
    for (size_t i = 0; i < n; ++i) a_.order[size_t(done[i])] = int32_t(n - 1 - i);
  }

  // Two bytes are of one class where no edge has one of them without the other.
  void group_bytes() {
    std::array<bool, 257> begins{};
    begins[0] = true;
    for (const NfaState& s : a_.states)
      for (const ByteEdge& e : s.bytes) begins[e.lo] = begins[size_t(e.hi) + 1] = true;
    int group = -1;
    for (size_t b = 0; b < 256; ++b) {
      if (begins[b]) {
        ++group;
        a_.byte_of.push_back(uint8_t(b));
      }
      a_.class_of[b] = uint8_t(group);
    }
  }

  static constexpr size_t kState = 20, kRange = 10;  // steps of the budget
  const std::string& name_;
  std::string place_;  // name_, with the rule that is built
  GrammarBudget& budget_;
  Automaton a_;
  std::vector<int32_t> seen_;
  int32_t turn_ = -1;
};

}  // namespace

Automaton compile(const std::vector<Rule>& rules, const std::string& name, GrammarBudget& budget) {
  return Compiler(rules, name, budget).take();
}

}  // namespace toy::grammar

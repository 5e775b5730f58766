// GBNF as llama.cpp's guide has it: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
#include <map>

#include "grammar/automaton.h"
#include "grammar/schema_rules.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/grammar/grammar.h"

namespace toy {
namespace grammar {
namespace {

constexpr int kMaxDepth = 100;  // of parentheses

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const std::string& name, GrammarBudget& budget)
      : text_(text), name_(name), budget_(budget) {
    check(is_utf8(text), "{}: it is not UTF-8 text", name);
  }

  std::vector<Rule> parse(const std::vector<SchemaRule>& schemas, const std::string& root) {
    rule_index(root);
    for (const SchemaRule& s : schemas) add_schema(s);
    for (skip_space(true); !at_end(); skip_space(true)) parse_rule();
    check(defined_[0], "{0}: there is no rule '{1}', which is the complete text; add {1} ::= ...", name_, root);
    for (size_t i = 0; i < rules_.size(); ++i)
      if (!defined_[i]) {
        at_ = first_use_[i];
        fail_here(
            fmt::format("there is no rule '{0}'; add {0} ::= ..., or write \"{0}\" for the text", rules_[i].name));
      }
    return std::move(rules_);
  }

 private:
  void add_schema(const SchemaRule& s) {
    std::vector<Rule> rules = schema_rules(*s.schema, s.name, budget_, s.property);
    const size_t index = size_t(rule_index(s.rule)), first = rules_.size();
    defined_[index] = true;
    for (Rule& r : rules) {
      move_rules(r.expr, int32_t(first));
      r.name = r.name.empty() ? s.name : s.name + ": " + r.name;
      rules_.push_back(std::move(r));
      defined_.push_back(true);
      first_use_.push_back(at_);
    }
    rules_[index].expr = rule(int32_t(first));
  }
  static void move_rules(Expr& e, int32_t by) {
    if (e.kind == Expr::rule) e.rule_index += by;
    for (Expr& part : e.parts) move_rules(part, by);
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  [[noreturn]] void fail_here(const std::string& what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') ++line, column = 1;
    }
    fail("{}: line {}, column {}: {}", name_, line, column, what);
  }

  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        break;
      }
    }
  }

  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  std::string take_name() {
    std::string result;
    while (is_name(peek())) result += text_[at_++];
    return result;
  }
  int32_t rule_index(const std::string& name) {
    const auto [found, is_new] = index_.try_emplace(name, int32_t(rules_.size()));
    if (is_new) {
      rules_.push_back({name, {}});
      defined_.push_back(false);
      first_use_.push_back(at_);
    }
    return found->second;
  }

  void parse_rule() {
    const std::string name = take_name();
    if (name.empty())
      fail_here("expected a rule, such as root ::= \"yes\" | \"no\" (GBNF); its name has letters, digits, - and _");
    skip_space(false);
    if (!take("::=")) fail_here(fmt::format("expected ::= after '{}'", name));
    const size_t index = size_t(rule_index(name));
    if (defined_[index]) fail_here(fmt::format("rule '{}' is defined twice", name));
    defined_[index] = true;
    skip_space(true);
    Expr e = parse_alternatives(0);
    rules_[index].expr = std::move(e);
    skip_space(false);
    if (!at_end() && peek() != '\n' && peek() != '\r') fail_here("expected the end of the line");
  }

  Expr parse_alternatives(int depth) {
    Expr result = alternatives({});
    do {
      skip_space(true);  // also after |
      result.parts.push_back(parse_sequence(depth));
    } while (take("|"));
    return result.parts.size() == 1 ? std::move(result.parts[0]) : result;
  }

  Expr parse_sequence(int depth) {
    Expr result;
    for (;;) {
      budget_.spend(kItem, name_);
      budget_.spend_bytes(2 * sizeof(Expr), name_);
      skip_space(depth > 0);
      Expr item;
      if (at_end()) {
        return result;
      } else if (take("\"")) {
        item = parse_literal();
      } else if (take("[")) {
        item = parse_set();
      } else if (take("(")) {
        if (depth >= kMaxDepth) fail_here(fmt::format("parentheses nest more than {} levels", kMaxDepth));
        item = parse_alternatives(depth + 1);
        skip_space(true);
        if (!take(")")) fail_here("expected )");
      } else if (take(".")) {
        item = chars({{0, kLastCodePoint}});
      } else if (is_name(peek())) {
        if (depth == 0 && begins_rule()) return result;
        const size_t before = at_;
        const std::string name = take_name();
        const size_t after = at_;
        at_ = before;
        const int32_t index = rule_index(name);
        at_ = after;
        item = rule(index);
      } else if (peek() == '<' || (peek() == '!' && peek(1) == '<')) {
        fail_here("tokens in angle brackets are not supported; spell the text that they stand for");
      } else {
        return result;
      }
      result.parts.push_back(parse_repeats(std::move(item)));
    }
  }

  // The name of the next rule, where a file has no line break in front of it.
  bool begins_rule() const {
    size_t i = at_;
    while (i < text_.size() && is_name(text_[i])) ++i;
    while (i < text_.size() && (text_[i] == ' ' || text_[i] == '\t')) ++i;
    return text_.substr(i).starts_with("::=");
  }

  Expr parse_repeats(Expr item) {
    for (int count = 0;; ++count) {
      skip_space(false);
      int64_t least = 0, most = -1;
      if (take("*")) {
      } else if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (take("{")) {
        skip_space(false);
        least = peek() == ',' ? 0 : parse_count();
        most = least;
        skip_space(false);
        if (take(",")) {
          skip_space(false);
          most = peek() == '}' ? -1 : parse_count();
          skip_space(false);
        }
        if (!take("}")) fail_here("expected } after a count");
        if (most >= 0 && most < least)
          fail_here(fmt::format("the counts {} to {} are in the wrong order", least, most));
      } else {
        return item;
      }
      if (count >= kMaxDepth) fail_here("too many repetitions in a row");
      item = repeat(std::move(item), least, most);
    }
  }

  int64_t parse_count() {
    int64_t n = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if ((n = n * 10 + (peek() - '0')) > int64_t(kMaxStates)) fail_here(fmt::format("a count above {}", kMaxStates));
    if (at_ == begin) fail_here("expected a number");
    return n;
  }

  uint32_t hex(int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char d = peek();
      if (d >= '0' && d <= '9')
        c = c << 4 | uint32_t(d - '0');
      else if ((d >= 'a' && d <= 'f') || (d >= 'A' && d <= 'F'))
        c = c << 4 | uint32_t((d | 32) - 'a' + 10);
      else
        fail_here(fmt::format("expected {} hexadecimal digits", digits));
    }
    if (c > kLastCodePoint || (c >= 0xD800 && c < 0xE000)) fail_here(fmt::format("U+{:04X} is no character", c));
    return c;
  }

  uint32_t parse_char() {
    if (at_end()) fail_here("the text ends inside quotes or brackets");
    if (!take("\\")) {
      const size_t n = utf8_character(text_.substr(at_));
      const uint32_t c = code_points(text_.substr(at_, n), name_)[0];
      at_ += n;
      return c;
    }
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
        return uint32_t(c);
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      default:
        --at_;
        fail_here("unknown escape; known are \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    }
  }

  Expr parse_literal() {
    std::string text;
    while (!take("\"")) {
      budget_.spend(kItem, name_);
      text += utf8_encode(parse_char());
    }
    budget_.spend_bytes(3 * text.size(), name_);
    return literal(text);
  }

  Expr parse_set() {
    const bool negated = take("^");
    CharSet set;
    while (!take("]")) {
      budget_.spend(kItem, name_);
      const uint32_t lo = parse_char();
      uint32_t hi = lo;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        hi = parse_char();
        if (hi < lo) fail_here("a range of characters is in the wrong order");
      }
      set.push_back({lo, hi});
    }
    set = normalized(std::move(set));
    return chars(negated ? complement(set) : set);
  }

  static constexpr size_t kItem = 15;  // steps of the budget
  std::string_view text_;
  const std::string& name_;
  GrammarBudget& budget_;
  size_t at_ = 0;
  std::vector<Rule> rules_;
  std::vector<bool> defined_;
  std::vector<size_t> first_use_;
  std::map<std::string, int32_t> index_;
};

}  // namespace
}  // namespace grammar

Grammar parse_gbnf(std::string_view text, const std::string& name, const std::vector<SchemaRule>& schemas,
                   const std::string& root, GrammarBudget* budget) {
  GrammarBudget own;
  GrammarBudget& b = budget ? *budget : own;
  const std::vector<grammar::Rule> rules = grammar::GbnfParser(text, name, b).parse(schemas, root);
  return Grammar(std::make_shared<grammar::Automaton>(grammar::compile(rules, name, b)));
}

}  // namespace toy

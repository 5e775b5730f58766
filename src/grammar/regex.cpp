#include "grammar/regex.h"

#include <fmt/format.h>

#include <optional>

#include "grammar/automaton.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

constexpr int kMaxGroups = 100;  // in each other
const CharSet kDigits{{'0', '9'}};
const CharSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace{{'\t', '\r'}, {' ', ' '}};
const CharSet kAscii{{0, 0x7F}};
const CharSet kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const std::string& name)
      : c_(code_points(pattern, name)), pattern_(pattern), name_(name) {}

  Expr parse() {
    const Expr any = repeat(chars({{0, kLastCodePoint}}), 0, -1);
    Expr result = alternatives({});
    do {
      const bool at_begin = take('^');
      Expr branch = parse_sequence(0);
      const bool at_end = take('$');
      if (at_ < c_.size() && c_[at_] != '|') refuse("it has an anchor or ) in the middle");
      Expr whole;
      if (!at_begin) whole.parts.push_back(any);
      whole.parts.push_back(std::move(branch));
      if (!at_end) whole.parts.push_back(any);
      result.parts.push_back(std::move(whole));
    } while (take('|'));
    return result;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail("{}: the pattern '{}' cannot be expressed: {} (character {})", name_, pattern_, what, at_ + 1);
  }
  bool is(uint32_t c, size_t ahead = 0) const { return at_ + ahead < c_.size() && c_[at_ + ahead] == c; }
  bool take(uint32_t c) { return is(c) && (++at_, true); }

  Expr parse_alternatives(int depth) {
    Expr result = alternatives({});
    do result.parts.push_back(parse_sequence(depth));
    while (take('|'));
    return result;
  }

  Expr parse_sequence(int depth) {
    Expr result;
    while (at_ < c_.size() && !is('|') && !is(')') && !is('$')) result.parts.push_back(parse_quantified(depth));
    return result;
  }

  Expr parse_quantified(int depth) {
    Expr item = parse_item(depth);
    int64_t least = 0, most = -1;
    if (take('*')) {
    } else if (take('+')) {
      least = 1;
    } else if (take('?')) {
      most = 1;
    } else if (is('{') && at_ + 1 < c_.size() && c_[at_ + 1] >= '0' && c_[at_ + 1] <= '9') {
      ++at_;
      least = most = count();
      if (take(',')) most = is('}') ? -1 : count();
      if (!take('}')) refuse("expected }");
      if (most >= 0 && most < least) refuse("counts in the wrong order");
    } else {
      return item;
    }
    take('?');  // lazy: the same texts
    if (is('*') || is('+') || is('?')) refuse("two quantifiers in a row");
    return repeat(std::move(item), least, most);
  }

  int64_t count() {
    int64_t n = 0;
    const size_t begin = at_;
    for (; at_ < c_.size() && c_[at_] >= '0' && c_[at_] <= '9'; ++at_)
      if ((n = n * 10 + (c_[at_] - '0')) > int64_t(kMaxStates)) refuse("a count that is too large");
    if (at_ == begin) refuse("expected a number");
    return n;
  }

  Expr parse_item(int depth) {
    const uint32_t c = c_[at_++];
    switch (c) {
      case '.':
        return chars(complement(kLineEnds));
      case '[':
        return parse_set();
      case '\\': {
        if (const std::optional<CharSet> set = named_set()) return chars(*set);
        const uint32_t e = escaped();
        return chars({{e, e}});
      }
      case '(': {
        if (depth >= kMaxGroups) refuse("groups nest too deeply");
        if (take('?') && !take(':')) {
          if (!is('<') || is('=', 1) || is('!', 1)) refuse("look-around");
          while (at_ < c_.size() && !take('>')) ++at_;  // a name
        }
        Expr group = parse_alternatives(depth + 1);
        if (!take(')')) refuse("expected ), or it has an anchor in the middle");
        return group;
      }
      case '^':
        --at_;
        refuse("it has ^ in the middle");
      case '*':
      case '+':
      case '?':
        --at_;
        refuse("a quantifier without anything to repeat");
      default:
        return chars({{c, c}});
    }
  }

  // \d and the like, after the backslash. Negated ones are ASCII, too: engines differ in what else they are.
  std::optional<CharSet> named_set() {
    if (at_ >= c_.size()) refuse("it ends in a backslash");
    switch (c_[at_]) {
      case 'd':
        ++at_;
        return kDigits;
      case 'w':
        ++at_;
        return kWord;
      case 's':
        ++at_;
        return kSpace;
      case 'D':
        ++at_;
        return intersection(kAscii, complement(kDigits));
      case 'W':
        ++at_;
        return intersection(kAscii, complement(kWord));
      case 'S':
        ++at_;
        return intersection(kAscii, complement(kSpace));
      default:
        return std::nullopt;
    }
  }

  uint32_t escaped() {
    const uint32_t c = c_[at_++];
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case '0':
        return 0;
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      default:
        break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
      --at_, refuse(fmt::format("\\{}", utf8_encode(c)));
    return c;
  }

  uint32_t hex(int digits) {
    uint32_t c = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const uint32_t d = at_ < c_.size() ? c_[at_] : 0;
      if (d >= '0' && d <= '9')
        c = c << 4 | (d - '0');
      else if ((d >= 'a' && d <= 'f') || (d >= 'A' && d <= 'F'))
        c = c << 4 | ((d | 32) - 'a' + 10);
      else
        refuse("expected hexadecimal digits");
    }
    if (c >= 0xD800 && c < 0xE000) refuse("half of a surrogate pair");
    return c;
  }

  Expr parse_set() {
    const bool negated = take('^');
    CharSet set;
    bool named = false;
    while (!take(']')) {
      if (at_ >= c_.size()) refuse("expected ]");
      if (is('\\')) {
        ++at_;
        if (const std::optional<CharSet> s = named_set()) {
          set.insert(set.end(), s->begin(), s->end());
          named = true;
          continue;
        }
        --at_;
      }
      const uint32_t lo = set_char();
      uint32_t hi = lo;
      if (is('-') && at_ + 1 < c_.size() && !is(']', 1)) {
        ++at_;
        hi = set_char();
        if (hi < lo) refuse("a range in the wrong order");
      }
      set.push_back({lo, hi});
    }
    set = normalized(std::move(set));
    if (negated) set = named ? intersection(kAscii, complement(set)) : complement(set);
    return chars(std::move(set));
  }

  uint32_t set_char() {
    if (take('\\')) {
      if (at_ >= c_.size()) refuse("it ends in a backslash");
      if (take('b')) return '\b';
      return escaped();
    }
    return c_[at_++];
  }

  std::vector<uint32_t> c_;
  std::string_view pattern_;
  const std::string& name_;
  size_t at_ = 0;
};

#define TOY_DATE                                                                                        \
  "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)" \
  "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define TOY_TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define TOY_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define TOY_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,20}[A-Za-z0-9])?"

}  // namespace

Expr parse_regex(std::string_view pattern, const Payer& payer) {
  constexpr size_t kCharacter = 10;  // steps of the budget
  payer.spend(pattern.size() * kCharacter);
  return RegexParser(pattern, payer.name).parse();
}

const char* format_pattern(std::string_view format) {
  static constexpr std::pair<std::string_view, const char*> kFormats[] = {
      {"date", "^" TOY_DATE "$"},
      {"time", "^" TOY_TIME "$"},
      {"date-time", "^" TOY_DATE "T" TOY_TIME "$"},
      {"duration", "^P(?:[0-9]{1,3}W|[0-9]{1,3}D(?:T[0-9]{1,2}H)?|[0-9]{1,2}Y(?:[0-9]{1,2}M)?|T[0-9]{1,2}[HMS])$"},
      {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
      {"email", "^[A-Za-z0-9_+-]{1,20}(?:\\.[A-Za-z0-9_+-]{1,20}){0,2}@" TOY_LABEL "(?:\\." TOY_LABEL "){1,3}$"},
      {"hostname", "^" TOY_LABEL "(?:\\." TOY_LABEL "){0,4}$"},
      {"ipv4", "^" TOY_BYTE "(?:\\." TOY_BYTE "){3}$"},
      {"ipv6", "^[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){7}$"},
      {"uri", "^https?://" TOY_LABEL "(?:\\." TOY_LABEL "){0,4}(?:/[A-Za-z0-9._~-]{0,30}){0,8}"
              "(?:\\?[A-Za-z0-9._~=&-]{0,60})?$"},
  };
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern;
  return nullptr;
}

}  // namespace toy::grammar

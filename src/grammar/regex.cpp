#include "grammar/regex.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "grammar/automaton.h"
#include "text/unicode.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::grammar {
namespace {

constexpr int kMaxGroups = 100;  // in each other
const CharSet kDigits{{'0', '9'}};
const CharSet kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                     {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// All texts that a pattern is found in.
struct Regex {
  Expr texts;
  std::vector<std::pair<Expr, bool>> conditions;  // texts that it is one of, or not
};

// The code points of a general category, by its short or long name (PropertyValueAliases.txt of Unicode), or of a
// property that has no long table; nullopt: there is none of the name.
std::optional<CharSet> category_set(std::string_view name) {
  struct Category {
    std::string_view name, long_name, other = {};
  };
  static constexpr Category kCategories[] = {{"L", "Letter"},
                                             {"LC", "Cased_Letter"},
                                             {"Lu", "Uppercase_Letter"},
                                             {"Ll", "Lowercase_Letter"},
                                             {"Lt", "Titlecase_Letter"},
                                             {"Lm", "Modifier_Letter"},
                                             {"Lo", "Other_Letter"},
                                             {"M", "Mark", "Combining_Mark"},
                                             {"Mn", "Nonspacing_Mark"},
                                             {"Mc", "Spacing_Mark"},
                                             {"Me", "Enclosing_Mark"},
                                             {"N", "Number"},
                                             {"Nd", "Decimal_Number", "digit"},
                                             {"Nl", "Letter_Number"},
                                             {"No", "Other_Number"},
                                             {"P", "Punctuation", "punct"},
                                             {"Pc", "Connector_Punctuation"},
                                             {"Pd", "Dash_Punctuation"},
                                             {"Ps", "Open_Punctuation"},
                                             {"Pe", "Close_Punctuation"},
                                             {"Pi", "Initial_Punctuation"},
                                             {"Pf", "Final_Punctuation"},
                                             {"Po", "Other_Punctuation"},
                                             {"S", "Symbol"},
                                             {"Sm", "Math_Symbol"},
                                             {"Sc", "Currency_Symbol"},
                                             {"Sk", "Modifier_Symbol"},
                                             {"So", "Other_Symbol"},
                                             {"Z", "Separator"},
                                             {"Zs", "Space_Separator"},
                                             {"Zl", "Line_Separator"},
                                             {"Zp", "Paragraph_Separator"},
                                             {"C", "Other"},
                                             {"Cc", "Control", "cntrl"},
                                             {"Cf", "Format"},
                                             {"Cs", "Surrogate"},
                                             {"Co", "Private_Use"},
                                             {"Cn", "Unassigned"}};
  if (name == "Any") return CharSet{{0, kLastCodePoint}};
  if (name == "ASCII") return CharSet{{0, 0x7F}};
  for (const std::string_view prefix : {"General_Category=", "gc="})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  static const std::map<std::string, CharSet, std::less<>> kSets = [] {
    std::map<std::string, CharSet, std::less<>> sets;
    for (uint32_t c = 0, next = 0; c <= kLastCodePoint; c = next) {
      const std::string_view category = category_of(c);
      for (next = c + 1; next <= kLastCodePoint && category_of(next) == category;) ++next;
      for (const std::string_view n : {category, category.substr(0, 1)}) sets[std::string(n)].push_back({c, next - 1});
      if (category == "Lu" || category == "Ll" || category == "Lt") sets["LC"].push_back({c, next - 1});
    }
    for (auto& [key, set] : sets) set = normalized(std::move(set));
    return sets;
  }();
  for (const Category& c : kCategories)
    if (name == c.name || name == c.long_name || (!c.other.empty() && name == c.other))
      if (const auto found = kSets.find(c.name); found != kSets.end()) return found->second;
  return std::nullopt;
}

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const std::string& name)
      : c_(code_points(pattern, name)), pattern_(pattern), name_(name) {}

  // What a text may be in front of and behind what is found is no part of it. Conditions come first: (?=A), (?!A).
  Regex parse() {
    const Expr any = repeat(chars({{0, kLastCodePoint}}), 0, -1);
    Regex result;
    const size_t begin = at_;
    if (take('^') && is('(') && is('?', 1) && (is('=', 2) || is('!', 2))) {
      while (is('(') && is('?', 1) && (is('=', 2) || is('!', 2))) {
        const bool holds = is('=', 2);
        at_ += 3;
        Expr ahead = parse_alternatives(1);
        if (!take(')')) refuse("expected )");
        result.conditions.push_back({sequence({std::move(ahead), any}), holds});
      }
      result.texts = sequence({parse_sequence(0), any});
      if (is('|')) refuse("look-around in an alternative");
    } else {
      at_ = begin;
      result.texts = sequence({any, parse_alternatives(0), any});
    }
    if (at_ < c_.size()) refuse("a ) without (");
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
    while (at_ < c_.size() && !is('|') && !is(')')) result.parts.push_back(parse_quantified(depth));
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
      case '^':
        return {.kind = Expr::text_begin};
      case '$':
        return {.kind = Expr::text_end};
      case '\\': {
        if (take('b')) return {.kind = Expr::word_edge};
        if (take('B')) return {.kind = Expr::no_word_edge};
        if (const std::optional<CharSet> set = named_set()) return chars(*set);
        const uint32_t e = escaped();
        return chars({{e, e}});
      }
      case '(': {
        if (depth >= kMaxGroups) refuse("groups nest too deeply");
        if (take('?') && !take(':')) {
          if (is('=') || is('!') || (is('<') && (is('=', 1) || is('!', 1))))
            refuse("look-around other than ^(?=...) or ^(?!...) at its beginning; leave it out");
          if (!is('<')) refuse("(? is followed by no kind of group; write flags out, [aA] for (?i)a");
          while (at_ < c_.size() && !take('>')) ++at_;  // a name
        }
        Expr group = parse_alternatives(depth + 1);
        if (!take(')')) refuse("expected )");
        return group;
      }
      case '*':
      case '+':
      case '?':
        --at_;
        refuse("a quantifier without anything to repeat");
      default:
        return chars({{c, c}});
    }
  }

  // \d and the like, after the backslash, as ECMAScript has them.
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
        return complement(kDigits);
      case 'W':
        ++at_;
        return complement(kWord);
      case 'S':
        ++at_;
        return complement(kSpace);
      case 'p':
      case 'P':
        return property();
      default:
        return std::nullopt;
    }
  }

  // \p{L}, \P{Lu}, \p{General_Category=Letter}
  CharSet property() {
    const bool negated = c_[at_++] == 'P';
    std::string name;
    if (take('{')) {
      while (at_ < c_.size() && !is('}')) name += utf8_encode(c_[at_++]);
      if (!take('}')) refuse("expected }");
    } else if (at_ < c_.size()) {
      name = utf8_encode(c_[at_++]);
    }
    const std::optional<CharSet> set = category_set(name);
    if (!set)
      refuse(fmt::format("\\p{{{}}}: of the properties of Unicode, only general categories such as \\p{{L}} are known",
                         name));
    return negated ? complement(*set) : *set;
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
        if (is('{')) return hex_in_braces();
        return hex(4);
      default:
        break;
    }
    if (c == 'c' && at_ < c_.size() && ((c_[at_] | 32) >= 'a' && (c_[at_] | 32) <= 'z')) return c_[at_++] % 32;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
      --at_, refuse(fmt::format("\\{}", utf8_encode(c)));
    return c;
  }

  uint32_t hex_in_braces() {
    int digits = 0;
    for (++at_; at_ + size_t(digits) < c_.size() && !is('}', size_t(digits));) ++digits;
    if (digits == 0 || digits > 6) refuse("expected 1 to 6 hexadecimal digits");
    const uint32_t c = hex(digits);
    ++at_;
    if (c > kLastCodePoint) refuse("no code point");
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
    if (c >= 0xD800 && c < 0xDC00 && is('\\') && is('u', 1)) {
      at_ += 2;
      const uint32_t low = hex(4);
      if (low >= 0xDC00 && low < 0xE000) return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    } else if (c >= 0xDC00 && c < 0xE000 && digits == 4) {
      return c;  // the other half, or a character that no text has
    }
    if (c >= 0xD800 && c < 0xDC00) refuse("half of a surrogate pair");
    return c;
  }

  Expr parse_set() {
    const bool negated = take('^');
    CharSet set;
    while (!take(']')) {
      if (at_ >= c_.size()) refuse("expected ]");
      if (is('\\')) {
        ++at_;
        if (const std::optional<CharSet> s = named_set()) {
          set.insert(set.end(), s->begin(), s->end());
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
    return chars(negated ? complement(set) : std::move(set));
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

}  // namespace

CharAutomaton regex_automaton(std::string_view pattern, const Payer& payer) {
  constexpr size_t kCharacter = 10;  // steps of the budget
  payer.spend(pattern.size() * kCharacter);
  payer.spend_bytes(pattern.size() * sizeof(Expr));
  const Regex regex = RegexParser(pattern, payer.name).parse();
  CharAutomaton result = char_automaton(regex.texts, payer);
  for (const auto& [texts, holds] : regex.conditions) {
    const CharAutomaton a = char_automaton(texts, payer);
    result = intersection(result, holds ? a : complement(a, payer), payer);
  }
  return result;
}

}  // namespace toy::grammar

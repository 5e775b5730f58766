#include "grammar/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"

namespace toy::grammar {
namespace {

Expr digit(int lo, int hi) { return lo > hi ? alternatives({}) : chars({{uint32_t('0' + lo), uint32_t('0' + hi)}}); }
Expr digits(int64_t least, int64_t most) { return repeat(digit(0, 9), least, most); }
Expr one(char c) { return chars({{uint32_t(c), uint32_t(c)}}); }
int value(char c) { return c - '0'; }

// Are the digits from i on all `c`?
bool only(char c, const std::string& s, size_t i) { return s.find_first_not_of(c, i) == s.npos; }

// Digits of the length of `s` that are at least, or at most, s.
Expr at_least(const std::string& s, size_t i) {
  if (i == s.size()) return {};
  const int64_t rest = int64_t(s.size() - i) - 1;
  if (only('0', s, i)) return digits(rest + 1, rest + 1);
  return alternatives(
      {sequence({one(s[i]), at_least(s, i + 1)}), sequence({digit(value(s[i]) + 1, 9), digits(rest, rest)})});
}
Expr at_most(const std::string& s, size_t i) {
  if (i == s.size()) return {};
  const int64_t rest = int64_t(s.size() - i) - 1;
  if (only('9', s, i)) return digits(rest + 1, rest + 1);
  return alternatives(
      {sequence({one(s[i]), at_most(s, i + 1)}), sequence({digit(0, value(s[i]) - 1), digits(rest, rest)})});
}
// Digits of the length of both from a to b.
Expr between(const std::string& a, const std::string& b, size_t i) {
  if (i == a.size()) return {};
  if (a[i] == b[i]) return sequence({one(a[i]), between(a, b, i + 1)});
  const int64_t rest = int64_t(a.size() - i) - 1;
  if (only('0', a, i + 1) && only('9', b, i + 1))
    return sequence({digit(value(a[i]), value(b[i])), digits(rest, rest)});
  return alternatives({sequence({one(a[i]), at_least(a, i + 1)}),
                       sequence({digit(value(a[i]) + 1, value(b[i]) - 1), digits(rest, rest)}),
                       sequence({one(b[i]), at_most(b, i + 1)})});
}

// Whole numbers from lo to hi, lo at least 0.
Expr naturals(int64_t lo, int64_t hi) {
  if (lo > hi) return alternatives({});
  const std::string a = std::to_string(lo), b = std::to_string(hi);
  if (a.size() == b.size()) return between(a, b, 0);
  const int64_t n = int64_t(a.size()), m = int64_t(b.size());
  std::string first(b.size(), '0');  // of its length
  first[0] = '1';
  Expr result = alternatives({at_least(a, 0), between(first, b, 0)});
  if (m - n > 1) result.parts.push_back(sequence({digit(1, 9), digits(n, m - 2)}));  // of a length between
  return result;
}

Expr zeros(int64_t least, int64_t most) { return repeat(one('0'), least, most); }
Expr any_fraction(int n) { return optional(sequence({one('.'), digits(1, n)})); }
Expr above_zero(int n) { return sequence({zeros(0, n - 1), digit(1, 9), digits(0, n)}); }

// What follows the point of a number at least 0.F.
Expr fraction_from(const std::string& f, size_t i, bool exclusive, int n) {
  if (i == f.size()) return exclusive ? above_zero(n) : digits(0, n);
  return alternatives({sequence({digit(value(f[i]) + 1, 9), digits(0, n)}),
                       sequence({one(f[i]), fraction_from(f, i + 1, exclusive, n)})});
}
// Of one at most 0.F, which has digits at i.
Expr fraction_to(const std::string& f, size_t i, bool exclusive, int n) {
  if (i == f.size()) return exclusive ? alternatives({}) : zeros(0, n);
  Expr result = alternatives({sequence({digit(0, value(f[i]) - 1), digits(0, n)}),
                              sequence({one(f[i]), fraction_to(f, i + 1, exclusive, n)})});
  if (i > 0) result.parts.emplace_back();
  return result;
}

// Numbers that are not negative, at least and at most the size of the bound.
Expr sizes_from(const Bound& b, int n) {
  const int64_t whole = std::stoll(b.whole);
  Expr same = any_fraction(n);
  if (!b.fraction.empty() || b.exclusive) same = sequence({one('.'), fraction_from(b.fraction, 0, b.exclusive, n)});
  return alternatives(
      {sequence({literal(b.whole), std::move(same)}), sequence({naturals(whole + 1, kMaxInteger), any_fraction(n)})});
}
Expr sizes_to(const Bound& b, int n) {
  const int64_t whole = std::stoll(b.whole);
  Expr same = alternatives({});
  if (b.fraction.empty()) {
    if (!b.exclusive) same = optional(sequence({one('.'), zeros(1, n)}));
  } else {
    same = optional(sequence({one('.'), fraction_to(b.fraction, 0, b.exclusive, n)}));
  }
  Expr result = alternatives({sequence({literal(b.whole), std::move(same)})});
  if (whole > 0) result.parts.push_back(sequence({naturals(0, whole - 1), any_fraction(n)}));
  return result;
}
Expr any_size(int n) { return sequence({naturals(0, kMaxInteger), any_fraction(n)}); }

}  // namespace

Expr integers(int64_t lo, int64_t hi) {
  Expr result = alternatives({});
  if (hi >= 0) result.parts.push_back(naturals(std::max<int64_t>(lo, 0), hi));
  if (lo < 0) result.parts.push_back(sequence({one('-'), naturals(std::max<int64_t>(-hi, 1), -lo)}));
  return result;
}

CharAutomaton multiples(int64_t m) {
  // State 0 is the beginning, 1 what follows the sign, 2 + r a number of remainder r.
  CharAutomaton a;
  a.states.resize(size_t(m) + 2);
  a.states[0].edges.push_back({{{'-', '-'}}, 1});
  for (int64_t s = 0; s < m + 2; ++s)
    for (uint32_t d = 0; d < 10; ++d)
      a.states[size_t(s)].edges.push_back(
          {{{'0' + d, '0' + d}}, int32_t((std::max<int64_t>(s - 2, 0) * 10 + d) % m + 2)});
  a.states[2].accept = true;
  return a;
}

Bound bound_of(double number, bool exclusive, const std::string& what) {
  check(std::isfinite(number) && std::abs(number) <= double(kMaxInteger), "{} is {}; use -{} to {}", what, number,
        kMaxInteger, kMaxInteger);
  for (int places = 0; places <= 15; ++places) {
    const std::string text = fmt::format("{:.{}f}", std::abs(number), places);
    if (std::stod(text) != std::abs(number)) continue;
    Bound b{.negative = number < 0, .whole = text.substr(0, text.find('.')), .fraction = {}, .exclusive = exclusive};
    if (places > 0) b.fraction = text.substr(text.find('.') + 1);
    return b;
  }
  fail("{} is {}; use a number of at most 15 digits behind the point", what, number);
}

Expr numbers_from(const Bound& b, int n) {
  if (!b.negative) return sizes_from(b, n);
  return alternatives({any_size(n), sequence({one('-'), sizes_to(b, n)})});
}

Expr numbers_to(const Bound& b, int n) {
  if (b.negative) return sequence({one('-'), sizes_from(b, n)});
  const bool is_zero = b.whole == "0" && b.fraction.empty();
  Expr negative = is_zero && b.exclusive ? sizes_from(b, n) : any_size(n);
  return alternatives({sizes_to(b, n), sequence({one('-'), std::move(negative)})});
}

int safe_digits(const Bound& b) { return std::clamp(14 - int(b.whole.size() + b.fraction.size()), 1, 6); }

}  // namespace toy::grammar

#include "grammar/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "toy/base/error.h"

namespace toy::grammar {
namespace {

using std::string;

// Whole numbers without bounds are those of int64 and uint64; others have up to 20 digits in front of the point.
const Decimal kLeast{true, "9223372036854775808", ""}, kMost{false, "18446744073709551615", ""};
constexpr size_t kMostDigits = 20;
constexpr int kMostPlaces = 17;  // behind the point
constexpr size_t kStepsOfNumber = 10'000;

Expr digit(int lo, int hi) { return lo > hi ? alternatives({}) : chars({{uint32_t('0' + lo), uint32_t('0' + hi)}}); }
Expr digits(int64_t least, int64_t most) { return repeat(digit(0, 9), least, most); }
Expr one(char c) { return chars({{uint32_t(c), uint32_t(c)}}); }
int value(char c) { return c - '0'; }

// Are the digits from i on all `c`?
bool only(char c, const string& s, size_t i) { return s.find_first_not_of(c, i) == s.npos; }

// Is one whole number, in digits, below another?
bool below(const string& a, const string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); }
string successor(string s) {
  size_t i = s.size();
  while (i > 0 && s[i - 1] == '9') s[--i] = '0';
  if (i == 0) return "1" + s;
  ++s[i - 1];
  return s;
}
string predecessor(string s) {  // of one above 0
  size_t i = s.size();
  while (s[i - 1] == '0') s[--i] = '9';
  --s[i - 1];
  return s.size() > 1 && s[0] == '0' ? s.substr(1) : s;
}

// Digits of the length of `s` that are at least, or at most, s.
Expr at_least(const string& s, size_t i) {
  if (i == s.size()) return {};
  const int64_t rest = int64_t(s.size() - i) - 1;
  if (only('0', s, i)) return digits(rest + 1, rest + 1);
  return alternatives(
      {sequence({one(s[i]), at_least(s, i + 1)}), sequence({digit(value(s[i]) + 1, 9), digits(rest, rest)})});
}
Expr at_most(const string& s, size_t i) {
  if (i == s.size()) return {};
  const int64_t rest = int64_t(s.size() - i) - 1;
  if (only('9', s, i)) return digits(rest + 1, rest + 1);
  return alternatives(
      {sequence({one(s[i]), at_most(s, i + 1)}), sequence({digit(0, value(s[i]) - 1), digits(rest, rest)})});
}
// Digits of the length of both from a to b.
Expr between(const string& a, const string& b, size_t i) {
  if (i == a.size()) return {};
  if (a[i] == b[i]) return sequence({one(a[i]), between(a, b, i + 1)});
  const int64_t rest = int64_t(a.size() - i) - 1;
  if (only('0', a, i + 1) && only('9', b, i + 1))
    return sequence({digit(value(a[i]), value(b[i])), digits(rest, rest)});
  return alternatives({sequence({one(a[i]), at_least(a, i + 1)}),
                       sequence({digit(value(a[i]) + 1, value(b[i]) - 1), digits(rest, rest)}),
                       sequence({one(b[i]), at_most(b, i + 1)})});
}

// Whole numbers from a to b.
Expr naturals(const string& a, const string& b) {
  if (below(b, a)) return alternatives({});
  if (a.size() == b.size()) return between(a, b, 0);
  const int64_t n = int64_t(a.size()), m = int64_t(b.size());
  string first(b.size(), '0');  // of its length
  first[0] = '1';
  Expr result = alternatives({at_least(a, 0), between(first, b, 0)});
  if (m - n > 1) result.parts.push_back(sequence({digit(1, 9), digits(n, m - 2)}));  // of a length between
  return result;
}

Expr zeros(int64_t least, int64_t most) { return repeat(one('0'), least, most); }
Expr any_fraction(int n) { return optional(sequence({one('.'), digits(1, n)})); }
Expr above_zero(int n) { return sequence({zeros(0, n - 1), digit(1, 9), digits(0, n)}); }

// What follows the point of a number at least 0.F.
Expr fraction_from(const string& f, size_t i, bool exclusive, int n) {
  if (i == f.size()) return exclusive ? above_zero(n) : digits(0, n);
  return alternatives({sequence({digit(value(f[i]) + 1, 9), digits(0, n)}),
                       sequence({one(f[i]), fraction_from(f, i + 1, exclusive, n)})});
}
// Of one at most 0.F, which has digits at i.
Expr fraction_to(const string& f, size_t i, bool exclusive, int n) {
  if (i == f.size()) return exclusive ? alternatives({}) : zeros(0, n);
  Expr result = alternatives({sequence({digit(0, value(f[i]) - 1), digits(0, n)}),
                              sequence({one(f[i]), fraction_to(f, i + 1, exclusive, n)})});
  if (i > 0) result.parts.emplace_back();
  return result;
}

string largest(const Decimal& beside) { return string(std::max(kMostDigits, beside.whole.size() + 1), '9'); }

// Numbers that are not negative, at least and at most the size of the bound.
Expr sizes_from(const Bound& b, int n) {
  const Decimal& d = b.value;
  Expr same = any_fraction(n);
  if (!d.fraction.empty() || b.exclusive) same = sequence({one('.'), fraction_from(d.fraction, 0, b.exclusive, n)});
  return alternatives({sequence({literal(d.whole), std::move(same)}),
                       sequence({naturals(successor(d.whole), largest(d)), any_fraction(n)})});
}
Expr sizes_to(const Bound& b, int n) {
  const Decimal& d = b.value;
  Expr same = alternatives({});
  if (d.fraction.empty()) {
    if (!b.exclusive) same = optional(sequence({one('.'), zeros(1, n)}));
  } else {
    same = optional(sequence({one('.'), fraction_to(d.fraction, 0, b.exclusive, n)}));
  }
  Expr result = alternatives({sequence({literal(d.whole), std::move(same)})});
  if (d.whole != "0") result.parts.push_back(sequence({naturals("0", predecessor(d.whole)), any_fraction(n)}));
  return result;
}
Expr any_size(int n) { return sequence({naturals("0", largest({})), any_fraction(n)}); }

Expr numbers_from(const Bound& b, int n) {
  if (!b.value.negative) return sizes_from(b, n);
  return alternatives({any_size(n), sequence({one('-'), sizes_to(b, n)})});
}
Expr numbers_to(const Bound& b, int n) {
  if (b.value.negative) return sequence({one('-'), sizes_from(b, n)});
  Expr negative = b.value.is_zero() && b.exclusive ? sizes_from(b, n) : any_size(n);
  return alternatives({sizes_to(b, n), sequence({one('-'), std::move(negative)})});
}

// Two decimal numbers of at most so many digits are never the same f64. Nor is one of them the f64 whose shortest form
// has more digits, which is what Decimal::of() gives.
constexpr int kExactDigits = 15;

// Can numbers of many digits be an f64 on the other side of the bound, whatever their number of places is?
bool needs_few_digits(const std::optional<Bound>& b) {
  if (!b) return false;
  const size_t before = b->value.whole.size(), all = before + b->value.fraction.size();
  return before > size_t(kExactDigits) || (b->exclusive && all >= size_t(kExactDigits));
}
int places_beside(const std::optional<Bound>& b) {
  if (!b || !b->exclusive) return kMostPlaces;
  if (needs_few_digits(b)) return kExactDigits - 1;
  return kExactDigits - int(b->value.whole.size() + b->value.fraction.size());
}

// Whole numbers without a point, which keep all of their digits, and others of at most kExactDigits.
Expr few_digits() {
  const auto fraction = [](int most) { return sequence({one('.'), digits(1, most)}); };
  Expr rest = fraction(1);  // after kExactDigits - 1 digits
  for (int before = kExactDigits - 2; before > 0; --before)
    rest = alternatives({fraction(kExactDigits - before), sequence({digit(0, 9), std::move(rest)})});
  Expr point = sequence({digit(0, 9), std::move(rest)});
  return sequence({optional(one('-')), alternatives({digits(1, -1), std::move(point)})});
}

// The whole number at or above, or at or below, a bound.
Decimal rounded(const Bound& b, bool up) {
  Decimal d{b.value.negative, b.value.whole, ""};
  const bool moves = b.value.is_whole() ? b.exclusive : b.value.negative != up;
  if (!moves) return d.is_zero() ? Decimal{} : d;
  const bool grows = d.is_zero() || d.negative != up;
  if (d.is_zero()) d.negative = !up;
  d.whole = grows ? successor(d.whole) : predecessor(d.whole);
  return d.is_zero() ? Decimal{} : d;
}

Expr whole_texts(const NumberLimits& l) {
  // Multiples need states for each digit.
  const bool is_free = l.factors.empty() && l.other_factors.empty();
  const string few(kExactDigits, '9');
  const Decimal least = is_free ? kLeast : Decimal{true, few, ""}, most = is_free ? kMost : Decimal{false, few, ""};
  Decimal lo = l.lower ? rounded(*l.lower, true) : least, hi = l.upper ? rounded(*l.upper, false) : most;
  if (!l.lower && hi < lo) lo = {true, largest(hi), ""};
  if (!l.upper && hi < lo) hi = {false, largest(lo), ""};
  Expr result = alternatives({});
  if (hi < lo) return result;
  if (!hi.negative) result.parts.push_back(naturals(lo.negative ? "0" : lo.whole, hi.whole));
  if (lo.negative) result.parts.push_back(sequence({one('-'), naturals(hi.negative ? hi.whole : "1", lo.whole)}));
  return result;
}

// A factor as numerator / 10^places * 10^zeros.
struct Factor {
  int64_t numerator = 0;
  size_t places = 0, zeros = 0;
};
Factor factor_of(const Decimal& d, const Payer& payer) {
  string n = d.whole + d.fraction;
  Factor f{.places = d.fraction.size()};
  n.erase(0, n.find_first_not_of('0'));
  if (f.places == 0)
    for (; n.ends_with('0'); n.pop_back()) ++f.zeros;
  check(n.size() <= 5 && std::stol(n) <= kMaxFactor && f.places <= 20,
        "{}: it cannot be expressed: it has too many digits; use one of up to {} without zeros and point", payer.name,
        kMaxFactor);
  f.numerator = std::stol(n);
  return f;
}

// Texts of multiples, among those that are numbers without an exponent.
CharAutomaton multiples(const Decimal& factor, const Payer& payer) {
  const Factor f = factor_of(factor, payer);
  const int64_t p = f.numerator, q = int64_t(f.places);
  payer.spend(size_t(p * (q + 2)) * 300);
  payer.spend_bytes(size_t(p * (q + 2)) * 10 * (sizeof(CharEdge) + 2 * sizeof(CharRange)));
  // The beginning, the sign, then by the remainder of all digits so far and by the place: whole, after the point, after
  // so many digits behind it. `later`: zeros behind everything.
  CharAutomaton a;
  const int64_t later = 2 + p * (q + 2);
  a.states.resize(size_t(later) + 1 + f.zeros);
  const auto at = [&](int64_t r, int64_t place) { return int32_t(2 + place * p + r); };
  const auto lead = [&](int64_t from, char c, int64_t to) {
    a.states[size_t(from)].edges.push_back({{{uint32_t(c), uint32_t(c)}}, int32_t(to)});
  };
  const auto zero_soon = [&](int64_t r, int64_t places) {
    for (int64_t i = 0; i < places; ++i) r = r * 10 % p;
    return r == 0;
  };
  lead(0, '-', 1);
  a.states[size_t(later)].accept = true;
  lead(later, '0', later);
  for (int d = 0; d < 10; ++d)
    for (const int64_t from : {0, 1}) lead(from, char('0' + d), at(d % p, 0));
  for (int64_t r = 0; r < p; ++r) {
    for (int64_t place = 0; place <= q + 1; ++place) {
      const int64_t s = at(r, place), done = std::max<int64_t>(place - 1, 0);
      if (place == 0) lead(s, '.', at(r, 1));
      if (place <= q)
        for (int d = 0; d < 10; ++d) lead(s, char('0' + d), at((r * 10 + d) % p, place == 0 ? 0 : place + 1));
      if (place == q + 1 && r == 0) lead(s, '0', later);
      if (place != 1) a.states[size_t(s)].accept = f.zeros == 0 && zero_soon(r, q - done);
    }
  }
  if (f.zeros == 0) return trimmed(a);
  // Multiples of the numerator, zeros, and perhaps .0; or 0 itself.
  const int64_t first = later + 1, last = later + int64_t(f.zeros);
  lead(at(0, 0), '0', first);
  for (int64_t s = first; s < last; ++s) lead(s, '0', s + 1);
  a.states[size_t(last)].accept = true;
  const int64_t zero = int64_t(a.states.size()), point = zero + 1;
  a.states.resize(size_t(point) + 1);
  for (const int64_t from : {0, 1}) lead(from, '0', zero);
  a.states[size_t(zero)].accept = true;
  for (const int64_t s : {last, zero}) lead(s, '.', point);
  lead(point, '0', later);
  return trimmed(a);
}

// Numbers that keep all of their digits as f64, so that they stay multiples.
Expr exact_in_f64(const NumberLimits& l) {
  size_t places = 1;
  for (const std::vector<Decimal>& list : {l.factors, l.other_factors})
    for (const Decimal& f : list) places = std::max(places, std::min(f.fraction.size(), size_t(kExactDigits) - 1));
  return sequence({optional(one('-')), digits(1, kExactDigits - int64_t(places)), any_fraction(int(places))});
}

Expr same_values(const std::vector<Decimal>& list) {
  std::vector<string> whole, others;
  for (const Decimal& d : list) {
    const string text = (d.negative ? "-" : "") + d.whole;
    if (d.is_whole())
      whole.push_back(text);
    else
      others.push_back(text + "." + d.fraction);
    if (d.is_zero()) whole.push_back("-0");
  }
  return alternatives({sequence({one_of(std::move(whole)), optional(sequence({one('.'), zeros(1, -1)}))}),
                       sequence({one_of(std::move(others)), zeros(0, -1)})});
}

}  // namespace

Decimal Decimal::of(const nlohmann::ordered_json& v, const string& what) {
  string text = v.is_number_unsigned()  ? std::to_string(v.get<uint64_t>())
                : v.is_number_integer() ? std::to_string(v.get<int64_t>())
                                        : fmt::format("{}", v.get<double>());
  Decimal d;
  if (text.starts_with('-')) d.negative = true, text.erase(0, 1);
  long exponent = 0;
  if (const size_t e = text.find('e'); e != text.npos) exponent = std::stol(text.substr(e + 1)), text.resize(e);
  const size_t point = std::min(text.find('.'), text.size());
  string all = text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  long before = long(point) + exponent;  // digits in front of the point
  check(all.find_first_not_of("0123456789") == all.npos && before < 400 && before > -400,
        "{} is {}; use a number of fewer digits", what, text);
  if (before <= 0) all.insert(0, size_t(1 - before), '0'), before = 1;
  if (size_t(before) > all.size()) all.append(size_t(before) - all.size(), '0');
  d.whole = all.substr(0, size_t(before)), d.fraction = all.substr(size_t(before));
  d.whole.erase(0, std::min(d.whole.find_first_not_of('0'), d.whole.size() - 1));
  d.fraction.erase(d.fraction.find_last_not_of('0') + 1);
  if (d.is_zero()) d.negative = false;
  return d;
}

bool operator<(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative;
  const Decimal &x = a.negative ? b : a, &y = a.negative ? a : b;
  if (x.whole != y.whole) return below(x.whole, y.whole);
  return x.fraction < y.fraction;
}

bool is_multiple(const Decimal& v, const Decimal& factor) {
  const size_t places = std::max(v.fraction.size(), factor.fraction.size());
  const auto scaled = [&](const Decimal& d) { return d.whole + d.fraction + string(places - d.fraction.size(), '0'); };
  string divisor = scaled(factor);
  divisor.erase(0, std::min(divisor.find_first_not_of('0'), divisor.size() - 1));
  if (divisor.size() > 18) return v.is_zero();
  const uint64_t n = std::stoull(divisor);
  if (n == 0) return false;
  uint64_t rest = 0;
  for (const char c : scaled(v)) rest = (rest * 10 + uint64_t(value(c))) % n;  // n is below 10^18
  return rest == 0;
}

bool NumberLimits::contains(const Decimal& v) const {
  if (kind != all && v.is_whole() != (kind == whole)) return false;
  if (lower && (v < lower->value || (lower->exclusive && v == lower->value))) return false;
  if (upper && (upper->value < v || (upper->exclusive && v == upper->value))) return false;
  const auto divides = [&](const Decimal& f) { return is_multiple(v, f); };
  return std::all_of(factors.begin(), factors.end(), divides) &&
         std::none_of(other_factors.begin(), other_factors.end(), divides) &&
         std::find(excluded.begin(), excluded.end(), v) == excluded.end();
}

void NumberLimits::at_least(const Bound& b) {
  if (!lower || lower->value < b.value || (lower->value == b.value && b.exclusive)) lower = b;
}
void NumberLimits::at_most(const Bound& b) {
  if (!upper || b.value < upper->value || (upper->value == b.value && b.exclusive)) upper = b;
}

Expr number_texts(const NumberLimits& limits, const Payer& payer) {
  payer.spend(kStepsOfNumber);
  NumberLimits l = limits;
  if (std::any_of(l.factors.begin(), l.factors.end(), [](const Decimal& f) { return f.is_whole(); })) {
    if (l.kind == NumberLimits::fractional) return alternatives({});
    l.kind = NumberLimits::whole;
    std::erase(l.factors, Decimal{false, "1", ""});
  }
  if (l.lower && l.upper &&
      (l.upper->value < l.lower->value ||
       (l.upper->value == l.lower->value && (l.lower->exclusive || l.upper->exclusive))))
    return alternatives({});
  const bool is_plain = l.factors.empty() && l.other_factors.empty() && l.excluded.empty();
  const bool is_close = l.kind != NumberLimits::whole && (l.kind == NumberLimits::fractional || !l.excluded.empty() ||
                                                          needs_few_digits(l.lower) || needs_few_digits(l.upper));
  const int n = std::min(places_beside(l.lower), places_beside(l.upper));
  std::optional<CharAutomaton> result;
  const auto add = [&](CharAutomaton a) { result = result ? intersection(*result, a, payer) : std::move(a); };
  const auto add_texts = [&](const Expr& texts) { add(merged(char_automaton(texts, payer), payer)); };
  if (l.kind == NumberLimits::whole) {
    Expr texts = whole_texts(l);
    if (is_plain && (l.lower || l.upper)) return texts;
    if (is_plain)  // the most common one: without two ways to read a digit
      return json_string_of(complement(complement(char_automaton(texts, payer), payer), payer));
    add_texts(texts);
  } else {
    if (is_plain && !is_close && !l.lower != !l.upper)
      return l.lower ? numbers_from(*l.lower, n) : numbers_to(*l.upper, n);
    if (l.lower) add_texts(numbers_from(*l.lower, n));
    if (l.upper) add_texts(numbers_to(*l.upper, n));
    if (!result) add_texts(sequence({optional(one('-')), any_size(n)}));
    if (is_close) add_texts(few_digits());
    if (!l.factors.empty() || !l.other_factors.empty()) add_texts(exact_in_f64(l));
  }
  if (l.kind == NumberLimits::fractional)
    add_texts(sequence({optional(one('-')), digits(1, -1), one('.'),
                        repeat(sequence({zeros(0, -1), digit(1, 9)}), 1, -1), zeros(0, -1)}));
  for (const Decimal& f : l.factors) add(multiples(f, payer));
  for (const Decimal& f : l.other_factors) add(complement(multiples(f, payer), payer));
  if (!l.excluded.empty()) add(complement(char_automaton(same_values(l.excluded), payer), payer));
  return json_string_of(std::move(*result));
}

}  // namespace toy::grammar

// Numbers within bounds, as JSON writes them.
#pragma once

#include <cstdint>
#include <string>

#include "grammar/char_automaton.h"

namespace toy::grammar {

/// Numbers have fewer than 16 digits in front of the point.
inline constexpr int64_t kMaxInteger = 999'999'999'999'999;

/// Whole numbers from `lo` to `hi`, both within kMaxInteger.
Expr integers(int64_t lo, int64_t hi);
/// Whole numbers that are multiples of m, from 1 to kMaxMultiple.
inline constexpr int64_t kMaxMultiple = 1000;
CharAutomaton multiples(int64_t m);

/// A bound of numbers in decimal digits.
struct Bound {
  bool negative = false;
  std::string whole, fraction;  ///< digits; the fraction has no zeros at its end
  bool exclusive = false;
};
/// The shortest decimal number that is `value`. Throws Error{bad_input} naming `what` for one of more digits than
/// numbers here have.
Bound bound_of(double value, bool exclusive, const std::string& what);

/// Numbers at least, or at most, the bound, with up to `digits` digits more than the bound's behind the point.
Expr numbers_from(const Bound& bound, int digits);
Expr numbers_to(const Bound& bound, int digits);
/// How many digits behind the point keep a number of f64 on its side of an exclusive bound.
int safe_digits(const Bound& bound);

}  // namespace toy::grammar

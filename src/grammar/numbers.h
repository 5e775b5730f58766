// Numbers within bounds, as JSON writes them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "grammar/char_automaton.h"

namespace toy::grammar {

/// A number in decimal digits, without zeros at the beginning and the end.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;

  /// The shortest decimal number that is this value of JSON. Throws Error{bad_input} naming `what` for one of more than
  /// 400 digits.
  static Decimal of(const nlohmann::ordered_json& value, const std::string& what);
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
  bool operator==(const Decimal&) const = default;
};
bool operator<(const Decimal& a, const Decimal& b);
/// Is `value` a multiple of `factor`, which is above 0? False for more digits than can be looked at.
bool is_multiple(const Decimal& value, const Decimal& factor);

/// A bound of numbers.
struct Bound {
  Decimal value;
  bool exclusive = false;
};

/// What numbers a schema allows.
struct NumberLimits {
  enum Kind { all, whole, fractional };  ///< fractional: all that are not whole
  Kind kind = all;
  std::optional<Bound> lower, upper;
  std::vector<Decimal> factors, other_factors;  ///< they are multiples of these, and not of the others
  std::vector<Decimal> excluded;
  bool is_open() const {
    return kind == all && !lower && !upper && factors.empty() && other_factors.empty() && excluded.empty();
  }
  bool contains(const Decimal& value) const;
  void at_least(const Bound& b);
  void at_most(const Bound& b);
};

/// Largest numerator of a factor, without zeros at its end: as many states are needed.
inline constexpr long kMaxFactor = 10'000;

/// The texts of these numbers; without an exponent. No alternatives: there are none. Not for limits that are open.
Expr number_texts(const NumberLimits& limits, const Payer& payer);

}  // namespace toy::grammar

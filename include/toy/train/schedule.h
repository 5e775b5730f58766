// Learning rate over time.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "toy/base/options.h"

namespace toy {

/// A learning rate for each step: a linear warmup to `peak`, then one of four shapes. A value; at() is a pure function.
struct Schedule {
  enum Kind {
    constant,  ///< `peak` to the end
    linear,    ///< a straight line down to peak * final_fraction at the last step
    cosine,    ///< half a cosine down to there (Loshchilov and Hutter 2017)
    wsd,  ///< warmup, stable, decay: `peak`, and a straight line over the last `decay` steps (Hu et al. 2024, MiniCPM)
  } kind = cosine;
  double peak = 1e-3;
  int64_t warmup = 0, steps = 1;  ///< warmup is a part of steps
  int64_t decay = 0;              ///< of wsd
  double final_fraction = 0.1;    ///< of all but constant

  /// Throws Error{bad_input} naming the option, its value and what would do.
  void validate() const;
  /// Rate of step `step`, counted from 0.
  double at(int64_t step) const;
};

/// Their names.
template <>
struct NamesOf<Schedule::Kind> {
  static constexpr std::array list = {std::pair("constant", Schedule::constant), std::pair("linear", Schedule::linear),
                                      std::pair("cosine", Schedule::cosine), std::pair("wsd", Schedule::wsd)};
};

}  // namespace toy

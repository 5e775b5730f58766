// How often a run sees its rows, for people.
#pragma once

#include <fmt/format.h>

#include <string>

namespace toy {

/// "1.19", "1000"
inline std::string epochs_text(double epochs) {
  constexpr double kWhole = 1000;
  return epochs < kWhole ? fmt::format("{:.3g}", epochs) : fmt::format("{:.0f}", epochs);
}

}  // namespace toy

// Many scales tried side by side for the same values, in the lanes of vectors.
#pragma once

#include <cstdint>

namespace toy::quant {

/// Where values are rounded to: whole numbers from low to high, or, with a table, the level nearest to v, which is
/// nearest[int(2 * (v - low))].
struct Levels {
  float low, high;
  const float* nearest = nullptr;
};

/// In: a scale and a minimum for each lane. Out: for the levels q nearest to (x + min) / scale the weighted squared
/// error of scale * q - min, and sums over w q, w q^2 and w x q, from which the best scale for these levels follows.
/// Values are added in the same order for any instruction set, and nothing is fused: the bits are the same everywhere.
struct Trials {
  static constexpr int kLanes = 16;
  float scale[kLanes] = {}, min[kLanes] = {};
  float error[kLanes], q[kLanes], qq[kLanes], xq[kLanes];
};

/// Tries all lanes on n values x with weights w and returns the lane of the smallest error. Without has_min every min
/// is taken as 0, and sums over w q are not made.
int try_all(const Levels& levels, bool has_min, const float* x, const float* w, int n, Trials& t);

}  // namespace toy::quant

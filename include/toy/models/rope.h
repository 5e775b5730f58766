// Rotary positions of a model as data, and the angles that follow from it.
#pragma once

#include <cstdint>
#include <vector>

#include "toy/ops/attrs/structs.h"

namespace toy {

/// Pair i of a head turns by position * frequency_i. Numbers are f32 where a file holds f32, so that saving and loading
/// changes nothing.
struct RopeSpec {
  enum class Scaling { none, linear, yarn } scaling = Scaling::none;
  RopePairing pairing = RopePairing::neighbour;
  float base = 10000;
  int64_t dims = 0;              ///< how many elements of a head turn, the first ones; 0: all
  float factor = 1;              ///< s: how many times longer than trained for; 1 where nothing is scaled
  int64_t original_context = 0;  ///< yarn, long_factors: positions the model was trained for before it was scaled
  bool whole_pairs = true;       ///< yarn: what is between turning as trained and scaled begins and ends at whole pairs
  float attn_factor = 1;         ///< multiplies cosines and sines
  std::vector<float> factors;    ///< r_i, empty or one per pair: frequency i is divided by it (Llama 3)
  /// Replace `factors` in contexts above original_context (LongRoPE, Ding et al. 2024).
  std::vector<float> long_factors;
  bool operator==(const RopeSpec&) const = default;
};

/// Radians per position, one per pair of the n elements of a head of `width` that turn: base^(-2i/n) / r_i, scaled.
/// `positions`: the context, which decides between short and long factors.
std::vector<double> rope_frequencies(const RopeSpec& spec, int64_t width, int64_t positions = 0);
/// What cosines and sines are multiplied by.
double rope_magnitude(const RopeSpec& spec);

/// How Llama 3.x states its scaling; in a GGUF it is a table of factors.
struct Llama3Scaling {
  double factor = 8, low = 1, high = 4, original_context = 8192;
};
/// r_i: 1 for wavelengths below original/high, `factor` above original/low, between them smooth.
std::vector<float> llama3_factors(const Llama3Scaling& scaling, double base, int64_t width);

}  // namespace toy

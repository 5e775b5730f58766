// Inner values of a model while it reads a text, by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind/bound_model.h"

namespace toy::bind {

/// A value of the forward pass.
struct Tap {
  std::string name;
  Shape shape;               ///< the first dimension is that of tokens, unless the value has none
  std::vector<float> f32;    ///< row-major
  std::vector<int32_t> i32;  ///< instead, of values that are ids
};

/// What can be tapped, in the order in which it is computed. What a weight makes is called as it is, without ".weight"
/// ("blk.0.attn_q"); named values have their names ("x_embed", "blk.0.out", "x_final", "logits"); other ops are called
/// by their layer and op ("blk.0.attention"). Values that would share a name have ".2", ".3" and so on.
std::vector<std::string> tap_names(BoundModel& model);

/// The forward pass on a token as a few boxes a layer (SVG).
std::string forward_svg(BoundModel& model);

/// The values whose names fit a pattern (toy/base/glob.h), with the bits that scoring and decoding compute. Options:
/// exact. Throws Error{bad_input} for ids and options as BoundModel::logits(), and for a pattern that no name fits.
std::vector<Tap> taps(BoundModel& model, std::span<const int32_t> ids, std::span<const std::string> patterns,
                      std::string_view json);

}  // namespace toy::bind

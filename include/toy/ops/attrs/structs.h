// The attribute structs of the built-in ops. They depend on tensor alone, so that backends may include them.
// Whatever changes from step to step (learning rate, positions) is an input of the op, never an attribute.
#pragma once

#include <tuple>

#include "toy/ops/attrs/attrs.h"

namespace toy {

/// scale: y = factor * x.
struct ScaleAttrs {
  double factor = 1;
  static constexpr auto fields() { return std::tuple(field("factor", &ScaleAttrs::factor)); }
};

/// fill: a tensor of one value.
struct FillAttrs {
  Shape shape;
  double value = 0;
  static constexpr auto fields() {
    return std::tuple(field("shape", &FillAttrs::shape), field("value", &FillAttrs::value));
  }
};

/// reshape, broadcast_to: a first dimension of -1 is the input's first dimension (which may be a run-time row count).
struct ShapeAttrs {
  Shape shape;
  static constexpr auto fields() { return std::tuple(field("shape", &ShapeAttrs::shape)); }
};

/// permute: output dimension i is input dimension order[i].
struct PermuteAttrs {
  Shape order;
  static constexpr auto fields() { return std::tuple(field("order", &PermuteAttrs::order)); }
};

/// slice: elements [begin, begin+count) of one axis.
struct SliceAttrs {
  int axis = 0;
  int64_t begin = 0, count = 0;
  static constexpr auto fields() {
    return std::tuple(field("axis", &SliceAttrs::axis), field("begin", &SliceAttrs::begin),
                      field("count", &SliceAttrs::count));
  }
};

/// concat, sum: the axis that is joined, or summed (and kept with size 1).
struct AxisAttrs {
  int axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttrs::axis)); }
};

/// cast: the dtype to round to.
struct CastAttrs {
  DType to = DType::f32;
  static constexpr auto fields() { return std::tuple(field("to", &CastAttrs::to)); }
};

/// matmul: either operand may be taken transposed in its last two dimensions.
struct MatmulAttrs {
  bool transpose_a = false, transpose_b = false;
  static constexpr auto fields() {
    return std::tuple(field("transpose_a", &MatmulAttrs::transpose_a), field("transpose_b", &MatmulAttrs::transpose_b));
  }
};

/// rms_norm (Zhang and Sennrich 2019): y = w x / sqrt(mean(x^2) + eps).
struct RmsNormAttrs {
  float eps = 1e-5f;
  static constexpr auto fields() { return std::tuple(field("eps", &RmsNormAttrs::eps)); }
};

/// Which elements of a head rotate together: 2i with 2i+1 (Llama files), or i with i + n/2 (most others).
enum class RopePairing { neighbour, half };

/// rope (Su et al. 2021). The first 2 Q elements of each head rotate, Q being the table's number of pairs.
struct RopeAttrs {
  RopePairing pairing = RopePairing::neighbour;
  bool inverse = false;  ///< rotate backwards: the gradient
  static constexpr auto fields() {
    return std::tuple(field("pairing", &RopeAttrs::pairing), field("inverse", &RopeAttrs::inverse));
  }
};

/// attention: scores scale * q.k; a row sees keys of its own sequence at positions p-window < j <= p (window 0: all).
struct AttentionAttrs {
  double scale = 1;
  int64_t window = 0;
  static constexpr auto fields() {
    return std::tuple(field("scale", &AttentionAttrs::scale), field("window", &AttentionAttrs::window));
  }
};

/// one_hot: the number of columns.
struct OneHotAttrs {
  int64_t classes = 0;
  static constexpr auto fields() { return std::tuple(field("classes", &OneHotAttrs::classes)); }
};

/// adamw (Loshchilov and Hutter 2019).
struct AdamWAttrs {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  static constexpr auto fields() {
    return std::tuple(field("beta1", &AdamWAttrs::beta1), field("beta2", &AdamWAttrs::beta2),
                      field("eps", &AdamWAttrs::eps), field("weight_decay", &AdamWAttrs::weight_decay));
  }
};

}  // namespace toy

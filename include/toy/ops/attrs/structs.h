// The attribute structs of the built-in ops. They depend only on tensor, so backends may include them.
// Whatever changes from step to step (learning rate, positions) is an input of the op, never an attribute.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "toy/ops/attrs/attrs.h"

namespace toy {

/// scale: y = factor * x.
struct ScaleAttrs {
  double factor = 1;
  static constexpr auto fields() { return std::tuple(field("factor", &ScaleAttrs::factor)); }
};

/// clamp: the ends of the range, in f32 so that they are the same number on every device.
struct ClampAttrs {
  float lo = 0, hi = 1;
  static constexpr auto fields() { return std::tuple(field("lo", &ClampAttrs::lo), field("hi", &ClampAttrs::hi)); }
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

/// concat: the axis that is joined. sum, max: the axis that is reduced (and kept with size 1).
struct AxisAttrs {
  int axis = 0;
  static constexpr auto fields() { return std::tuple(field("axis", &AxisAttrs::axis)); }
};

/// cumsum: the axis; reverse: from its end.
struct CumsumAttrs {
  int axis = 0;
  bool reverse = false;
  static constexpr auto fields() {
    return std::tuple(field("axis", &CumsumAttrs::axis), field("reverse", &CumsumAttrs::reverse));
  }
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

/// layer_norm (Ba et al. 2016): y = w (x - mean(x)) / sqrt(var(x) + eps) + b.
struct LayerNormAttrs {
  float eps = 1e-5f;
  static constexpr auto fields() { return std::tuple(field("eps", &LayerNormAttrs::eps)); }
};

/// l2_norm: y = x / sqrt(sum(x^2) + eps). eps is inside the root, as Gated DeltaNet's keys and queries want it.
struct L2NormAttrs {
  float eps = 1e-6f;
  static constexpr auto fields() { return std::tuple(field("eps", &L2NormAttrs::eps)); }
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

/// geglu: which gelu (Hendrycks and Gimpel 2016), the one with tanh or the one with erf.
enum class GeluKind { tanh, erf };
/// geglu: which of the two it uses.
struct GegluAttrs {
  GeluKind kind = GeluKind::tanh;
  static constexpr auto fields() { return std::tuple(field("kind", &GegluAttrs::kind)); }
};

/// Positions in one page of a cache, and in one key tile of attention's kernels: what a row adds up, and in which
/// order, depends on neither batch nor prompt.
inline constexpr int64_t kPagePositions = 64;

/// attention: scores s = scale * q.k, with a softcap (Gemma 2; 0: none) softcap * tanh(s / softcap); a row sees keys of
/// its own sequence at positions p-window < j <= p (window 0: all), or up to the end that the operand `until` gives it.
/// alibi: from the score of a query head for a key, its alibi_slope() times their distance is subtracted, |p - j|.
struct AttentionAttrs {
  double scale = 1;
  int64_t window = 0;
  double softcap = 0;
  bool alibi = false;
  static constexpr auto fields() {
    return std::tuple(field("scale", &AttentionAttrs::scale), field("window", &AttentionAttrs::window),
                      field("softcap", &AttentionAttrs::softcap), field("alibi", &AttentionAttrs::alibi));
  }
};
/// Of ALiBi (Press et al. 2022), of head h = 0, 1, ... of H. Of 2^n heads it is 2^(-8 (h + 1) / 2^n); with H between
/// 2^n and 2^(n+1), those after the first 2^n have the first, third, ... slope of 2^(n+1) heads.
inline double alibi_slope(int64_t head, int64_t heads) {
  const auto power = int64_t(std::bit_floor(uint64_t(heads)));
  return std::exp2(head < power ? -8.0 * double(head + 1) / double(power)
                                : -4.0 * double(2 * (head - power) + 1) / double(power));
}

/// Which key head a value head h uses, with H value heads and K key heads: h K/H, so that neighbours share one (Hugging
/// Face, and as in attention), or h mod K (llama.cpp's files).
enum class HeadMap { interleave, tile };

/// gated_delta_rule: how value heads share key heads; delta: whether a row writes only what its key does not predict,
/// or (false) its value as it is.
struct DeltaRuleAttrs {
  HeadMap heads = HeadMap::interleave;
  bool delta = true;
  static constexpr auto fields() {
    return std::tuple(field("heads", &DeltaRuleAttrs::heads), field("delta", &DeltaRuleAttrs::delta));
  }
};

/// kv_append: the dtype of the pages, to which keys and values are rounded.
struct KvAppendAttrs {
  DType type = DType::f32;
  static constexpr auto fields() { return std::tuple(field("type", &KvAppendAttrs::type)); }
};

/// dropout (Srivastava et al. 2014): an element is 0 with probability p, else multiplied by 1/(1-p). `stream` tells the
/// places of a graph apart: two with one stream drop the same elements.
struct DropoutAttrs {
  double p = 0;
  int64_t stream = 0;
  static constexpr auto fields() {
    return std::tuple(field("p", &DropoutAttrs::p), field("stream", &DropoutAttrs::stream));
  }
  /// An element whose 32 random bits are below this is dropped.
  uint32_t threshold() const { return uint32_t(std::min(p * 0x1p32 + 0.5, 0x1p32 - 1)); }
  /// What the others are multiplied by, so that the expectation is kept exactly.
  double gain() const { return 1 / (1 - double(threshold()) * 0x1p-32); }
};

/// linear_xent: logits become softcap * tanh(logit / softcap) (Gemma 2; 0: none).
struct LinearXentAttrs {
  double softcap = 0;
  static constexpr auto fields() { return std::tuple(field("softcap", &LinearXentAttrs::softcap)); }
};

/// top_k: how many of the largest elements.
struct TopKAttrs {
  int64_t k = 1;
  static constexpr auto fields() { return std::tuple(field("k", &TopKAttrs::k)); }
};

/// expert_linear_grad_w: how many experts there are.
struct ExpertAttrs {
  int64_t experts = 1;
  static constexpr auto fields() { return std::tuple(field("experts", &ExpertAttrs::experts)); }
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

/// adamw8: elements that share a scale.
inline constexpr int64_t kCodeBlock = 256;
/// adamw8: how many blocks n elements have.
constexpr int64_t code_blocks(int64_t n) { return (n + kCodeBlock - 1) / kCodeBlock; }

/// sgd: momentum 0 has no velocity; nesterov steps along gradient + momentum * velocity.
struct SgdAttrs {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  static constexpr auto fields() {
    return std::tuple(field("momentum", &SgdAttrs::momentum), field("weight_decay", &SgdAttrs::weight_decay),
                      field("nesterov", &SgdAttrs::nesterov));
  }
};

/// lion (Chen et al. 2023).
struct LionAttrs {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  static constexpr auto fields() {
    return std::tuple(field("beta1", &LionAttrs::beta1), field("beta2", &LionAttrs::beta2),
                      field("weight_decay", &LionAttrs::weight_decay));
  }
};

/// adafactor (Shazeer and Stern 2018). eps: smallest root of a second moment; clip: of the update's root mean square;
/// relative: steps are multiplied by the root mean square of the weights, at least smallest_scale.
struct AdafactorAttrs {
  double eps = 1e-15, clip = 1, weight_decay = 0, smallest_scale = 1e-3;
  bool relative = false;
  static constexpr auto fields() {
    return std::tuple(field("eps", &AdafactorAttrs::eps), field("clip", &AdafactorAttrs::clip),
                      field("weight_decay", &AdafactorAttrs::weight_decay),
                      field("smallest_scale", &AdafactorAttrs::smallest_scale),
                      field("relative", &AdafactorAttrs::relative));
  }
};

/// momentum: nesterov looks one step ahead.
struct MomentumAttrs {
  double momentum = 0.95;
  bool nesterov = true;
  static constexpr auto fields() {
    return std::tuple(field("momentum", &MomentumAttrs::momentum), field("nesterov", &MomentumAttrs::nesterov));
  }
};

}  // namespace toy

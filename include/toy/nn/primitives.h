// Named pieces of maths that layers are made of.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "toy/base/philox.h"
#include "toy/nn/weights.h"

namespace toy::nn {

/// What each row of a batch is. Training with several sequences, prefill and decoding differ only in what it says.
struct Batch {
  Value sequence;         ///< i32[N] which sequence the row belongs to; its rows are consecutive
  Value position;         ///< i32[N] its position there, counted from 0; consecutive rows count up by one
  Value turn = position;  ///< i32[N] by which rotary embeddings turn it
};

/// Random zeros while training (Srivastava et al. 2014). Each place drops elements of its own.
struct Dropout {
  Value random = {};  ///< i32[3]: seed and step; absent: nothing is dropped
  double p = 0;
  /// `place` names it within the layer that is being built.
  Value operator()(Value x, const std::string& place) const {
    if (!random) return x;
    const std::string name = x.graph->layer().path + "." + place;
    return dropout(x, random, {p, int64_t(hash_name(name))});
  }
};

/// factor x.
struct Scale {
  double factor = 1;
  Value operator()(Value x) const { return factor == 1 ? x : toy::scale(x, factor); }
};

/// A low-rank change of a linear map (Hu et al. 2021): y + s (x a^T) b^T. Where rows have factors of their own, those
/// of 0 keep the bits of y.
struct Adapter {
  Value a;                ///< [R,I]; of experts [E,R,I]
  Value b;                ///< [O,R]; of experts [E,O,R]
  double scale = 1;       ///< s
  Dropout dropout = {};   ///< of x
  std::string name = {};  ///< of the map, for dropout
  Value factors = {};     ///< [N,1] what each row multiplies s by, 0 or 1 with a magnitude; or absent
  Value magnitude = {};   ///< [O], or absent: then the sum is multiplied by magnitude / |w + s b a|, row by row of w
  Value norm = {};        ///< [O] |w|^2, or that |w + s b a| itself if it is constant
  bool constant_norm = false;
  Value first_a = {};  ///< as a, or absent: what this and first_b would add is subtracted
  Value first_b = {};
  /// What the sum is multiplied by; no gradient flows through the norm. w:[O,I] -> [O].
  Value gain(Value w) const {
    if (constant_norm) return magnitude / norm;
    const auto rows = [&](Value v) { return reshape(sum(v, 1), {b.dim(0)}); };
    const Value cross = rows(b * permute(linear(a, w), {1, 0})), square = rows(b * linear(b, linear(a, a)));
    return magnitude / stop_gradient(sqrt(norm + toy::scale(cross, 2 * scale) + toy::scale(square, scale * scale)));
  }
  /// x:[N,I] y:[N,O] -> [N,O].
  Value operator()(Value x, Value y) const {
    if (first_a) y = linear(Scale{-scale}(linear(x, first_a)), first_b, {}, y);
    if (factors) return low_rank(x, a, b, y, reshape(factors, {-1}), scale);  // of decoding, which drops nothing
    return linear(Scale{scale}(linear(dropout(x, name), a)), b, {}, y);
  }
  /// Each row by its experts. x:[N,S,I] y:[N,U,O] ids:i32[N,U] -> [N,U,O].
  Value operator()(Value x, Value y, Value ids) const {
    if (first_a) y = y - expert_linear(Scale{scale}(expert_linear(x, first_a, ids)), first_b, ids);
    const Value low = expert_linear(dropout(x, name), a, ids);
    return y + expert_linear(factors ? low * reshape(Scale{scale}(factors), {-1, 1, 1}) : Scale{scale}(low), b, ids);
  }
  /// s x a^T, where low:[N,R] is x a^T.
  Value scaled(Value low) const { return factors ? low * Scale{scale}(factors) : Scale{scale}(low); }
};

/// y = x w^T + bias, and what adapters add. x:[N,I] -> [N,O].
struct Linear {
  Value weight;                        ///< [O,I]
  Value bias = {};                     ///< [O] or absent
  std::vector<Adapter> adapters = {};  ///< in their order
  Value operator()(Value x) const {
    const auto has_magnitude = [](const Adapter& adapter) { return bool(adapter.magnitude); };
    if (std::any_of(adapters.begin(), adapters.end(), has_magnitude))
      return adapters.front().factors ? with_magnitudes_by_row(x) : with_magnitudes(x);
    Value y = linear(x, weight, bias);
    for (const Adapter& adapter : adapters) y = adapter(x, y);
    return y;
  }

 private:
  // Each adapter changes what the ones before it gave, as in PEFT; its gain is that of the weight and itself.
  Value with_magnitudes(Value x) const {
    Value y = linear(x, weight);
    for (const Adapter& adapter : adapters) {
      y = adapter(x, y);
      if (adapter.magnitude) y = y * adapter.gain(weight);
    }
    return bias ? y + bias : y;
  }
  // The same, and the plain sum, where rows differ: each has the result, in their order, of the adapters that it uses.
  Value with_magnitudes_by_row(Value x) const {
    const Value zero = fill(*x.graph, {1}, 0);
    Value y = linear(x, weight), plain = bias ? y + bias : Value{};
    Value magnitudes = zero;  // > 0: the row uses one of the adapters with a magnitude
    for (const Adapter& adapter : adapters) {
      if (adapter.magnitude) {
        const Value factor = abs(adapter.factors);
        y = where(greater(factor, zero), adapter(x, y) * adapter.gain(weight), y);
        magnitudes = maximum(magnitudes, factor);
      } else {
        y = adapter(x, y);
        if (bias) plain = adapter(x, plain);
      }
    }
    return bias ? where(greater(magnitudes, zero), y + bias, plain) : y;
  }
};

/// The same by the experts of each row. x:[N,S,I] ids:i32[N,U] -> [N,U,O].
struct ExpertLinear {
  Value weight = {};                   ///< [E,O,I]
  Value bias = {};                     ///< [E,O] or absent
  std::vector<Adapter> adapters = {};  ///< in their order
  Value operator()(Value x, Value ids) const {
    Value y = expert_linear(x, weight, ids);
    for (const Adapter& adapter : adapters) y = adapter(x, y, ids);
    return bias ? y + embedding(bias, ids) : y;
  }
};

/// y = w x / rms(x). x:[N,D] -> [N,D].
struct RmsNorm {
  Value weight;  ///< [D]
  float eps;
  Value operator()(Value x) const { return rms_norm(x, weight, eps); }
};

/// y = w (x - mean(x)) / sqrt(var(x) + eps) + b. x:[N,D] -> [N,D].
struct LayerNorm {
  Value weight, bias;  ///< [D]
  float eps;
  Value operator()(Value x) const { return layer_norm(x, weight, bias, eps); }
};

/// A piece that a model may lack: then rows pass as they are.
template <class Piece>
struct Maybe {
  std::optional<Piece> piece = {};
  Value operator()(Value x) const { return piece ? (*piece)(x) : x; }
};

/// One of several pieces of maths that go from rows to rows of the same width.
template <class... Kinds>
struct OneOf {
  std::variant<Kinds...> kind;
  Value operator()(Value x) const {
    return std::visit([x](const auto& piece) { return piece(x); }, kind);
  }
};
using Norm = OneOf<RmsNorm, LayerNorm>;

/// What a gated ffn does to its gate.
enum class Gate { silu, gelu_tanh, gelu_erf, oai };

/// f(gate) * up (Shazeer 2020); swiglu_oai() for Gate::oai.
inline Value gated(Gate f, Value gate, Value up) {
  if (f == Gate::silu) return swiglu(gate, up);
  if (f == Gate::oai) return swiglu_oai(gate, up);
  return geglu(gate, up, f == Gate::gelu_tanh ? GeluKind::tanh : GeluKind::erf);
}

/// down(f(gate(x)) * up(x)). x:[N,D] -> [N,D].
struct GatedMlp {
  Linear gate, up;  ///< [F,D]
  Linear down;      ///< [D,F]
  Gate f = Gate::silu;
  Value operator()(Value x) const {
    // One after the other: compilers evaluate arguments in orders of their own, and gradients of x are added in this
    // one.
    const Value raised = up(x);
    return down(gated(f, gate(x), raised));
  }
};

/// Either gelu (Hendrycks and Gimpel 2016).
inline Value gelu(GeluKind kind, Value x) { return kind == GeluKind::tanh ? gelu_tanh(x) : gelu_erf(x); }

/// down(gelu(up(x))). x:[N,D] -> [N,D].
struct GeluMlp {
  Linear up;    ///< [F,D]
  Linear down;  ///< [D,F]
  GeluKind kind = GeluKind::tanh;
  Value operator()(Value x) const { return down(gelu(kind, up(x))); }
};

/// down(relu(up(x))^2) (So et al. 2021). x:[N,D] -> [N,D].
struct Relu2Mlp {
  Linear up;    ///< [F,D]
  Linear down;  ///< [D,F]
  Value operator()(Value x) const { return down(sqr(relu(up(x)))); }
};

/// Chooses experts: those that score highest, and what each weighs. x:[N,D] -> [N,U].
struct Router {
  Linear map;              ///< [E,D]
  int64_t used;            ///< U experts of each row
  bool renormalized;       ///< the weights of those used are divided by their sum,
  double sum_eps = 0;      ///< to which this is added
  bool sigmoid = false;    ///< scores are sigmoid of the map, else softmax
  Value choice_bias = {};  ///< [E] added to the scores that choose, not to the weights; or absent
  double scale = 1;        ///< of the weights
  TopK operator()(Value x) const;
};

/// A mixture of experts (Shazeer et al. 2017): sum_u weight_u expert_u(x). x:[N,D] -> [N,D].
struct Mixture {
  Router router;
  ExpertLinear gate, up;  ///< [E,F,D]; without a gate experts are like Relu2Mlp,
  ExpertLinear down;      ///< [E,D,F]
  Gate f = Gate::silu;
  std::optional<GeluKind> without_gate = {};     ///< or like GeluMlp
  Maybe<OneOf<GatedMlp, Relu2Mlp>> shared = {};  ///< an expert of every row, whose weight is 1,
  Value shared_gate = {};                        ///< [1,D] or sigmoid of this score; or absent
  /// [Z,D], [D,Z] or absent: experts, but for the shared one, are of width Z
  Linear latent_down = {}, latent_up = {};
  Value operator()(Value x) const;
};
using Ffn = OneOf<GatedMlp, GeluMlp, Relu2Mlp, Mixture>;

/// Causal convolution of each channel. x:[N,C] -> [N,C].
struct CausalConv {
  Value filter;     ///< [C,W], whose last column meets the row itself
  Value bias = {};  ///< [C] or absent
  /// `tail`: [S,W-1,C], the last inputs of each sequence, updated; absent in training.
  Value operator()(Value x, Value* tail, const Batch& batch) const {
    const auto& [sequence, position, turn] = batch;
    const Value y = causal_conv(x, filter, bias, tail ? *tail : Value{}, sequence, position);
    if (tail) *tail = conv_append(*tail, x, sequence, position);
    return y;
  }
};

/// Rotary positions of a layer. Layers that turn alike share the table.
struct Rope {
  Value table = {};  ///< cosines and sines [C,Q,2]; absent: nothing turns
  RopePairing pairing = RopePairing::neighbour;
  /// x:[N,H,P] -> [N,H,P].
  Value operator()(Value x, const Batch& batch) const {
    return table ? rope(x, batch.turn, table, {pairing, false}) : x;
  }
};

/// Rows as heads, normalized and turned. x:[N,D] -> [N,heads,P].
struct Heads {
  const char* name;               ///< in reports: "q", "k"
  Linear map;                     ///< [heads P,D]
  int64_t heads, width;           ///< width: P
  Maybe<RmsNorm> row_norm = {};   ///< [heads P], over all heads as one (OLMo 2)
  Maybe<RmsNorm> head_norm = {};  ///< [P], over each head (Henry et al. 2020)
  Rope rope = {};
  Value operator()(Value x, const Batch& batch) const { return of(map(x), batch); }
  /// What the map gave as heads.
  Value of(Value mapped, const Batch& batch) const {
    const Value y = head_norm(reshape(row_norm(mapped), {-1, heads, width}));
    const auto scope = mapped.graph->scope(name);
    return rope(y, batch);
  }
};

}  // namespace toy::nn

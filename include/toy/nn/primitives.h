// Named pieces of maths that layers are made of.
#pragma once

#include <variant>

#include "toy/base/philox.h"
#include "toy/nn/weights.h"

namespace toy::nn {

/// What each row of a batch is. Training with several sequences, prefill and decoding differ only in what it says.
struct Batch {
  Value sequence;  ///< i32[N] which sequence the row belongs to; its rows are consecutive
  Value position;  ///< i32[N] its position there, counted from 0; consecutive rows count up by one
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

/// y = x w^T + bias. x:[N,I] -> [N,O].
struct Linear {
  Value weight;     ///< [O,I]
  Value bias = {};  ///< [O] or absent
  Value operator()(Value x) const { return linear(x, weight, bias); }
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

/// One of several pieces of maths that go from rows to rows of the same width.
template <class... Kinds>
struct OneOf {
  std::variant<Kinds...> kind;
  Value operator()(Value x) const {
    return std::visit([x](const auto& piece) { return piece(x); }, kind);
  }
};
using Norm = OneOf<RmsNorm, LayerNorm>;

/// down(silu(gate(x)) * up(x)). x:[N,D] -> [N,D].
struct SwiGlu {
  Linear gate, up;  ///< [F,D]
  Linear down;      ///< [D,F]
  Value operator()(Value x) const { return down(swiglu(gate(x), up(x))); }
};

/// down(gelu(up(x))), gelu by its tanh approximation (Hendrycks and Gimpel 2016). x:[N,D] -> [N,D].
struct GeluMlp {
  Linear up;    ///< [F,D]
  Linear down;  ///< [D,F]
  Value operator()(Value x) const { return down(gelu_tanh(up(x))); }
};
using Ffn = OneOf<SwiGlu, GeluMlp>;

/// Rotary positions of a model: the table of cosines and sines, shared by all layers.
struct Rope {
  Value table = {};  ///< [C,Q,2]; absent: nothing turns
  RopePairing pairing = RopePairing::neighbour;
  /// x:[N,H,P] -> [N,H,P].
  Value operator()(Value x, const Batch& batch) const {
    return table ? rope(x, batch.position, table, {pairing, false}) : x;
  }
};

}  // namespace toy::nn

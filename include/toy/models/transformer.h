// From a ModelSpec to values: embedding, blocks, final norm, output projection.
#pragma once

#include <span>
#include <vector>

#include "toy/models/spec.h"
#include "toy/nn/blocks.h"

namespace toy {

/// A model whose weights are values of a graph. Build one for each graph.
class Transformer {
 public:
  /// Declares every tensor of the model, in the order of files.
  Transformer(const ModelSpec& spec, const Weights& weights);

  /// tokens: i32[N] -> x_final [N,D], the normed output of the last block. `states`: one for each layer while decoding,
  /// empty in training; updated. Throws Error{bad_input} for another number of them.
  Value operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states = {}) const;
  /// Logits of the rows x:[M,D] -> [M,V].
  Value logits(Value x) const { return linear(x, output_); }
  /// The output projection [V,D] (the embedding itself when tied), for linear_xent.
  Value output_weight() const { return output_; }

 private:
  Value embedding_, positions_;  // positions_: where they are learned
  std::vector<nn::Block> blocks_;
  nn::Norm norm_;
  Value output_;
};

/// Cosines and sines for positions 0..positions-1: [C, P/2, 2], angle = position * frequency (toy/models/rope.h).
/// Nothing where positions are learned.
nn::Rope make_rope(Graph& graph, const ModelSpec& spec, int64_t positions);

}  // namespace toy

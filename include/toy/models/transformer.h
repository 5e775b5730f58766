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
  /// Declares every tensor of the model, in the order of files. `positions`: how many there are in the batches that it
  /// is called with; 0: it is not called. `random`: i32[3], seed and step of the adapters' dropout; absent: none.
  Transformer(const ModelSpec& spec, const Weights& weights, int64_t positions, Value random = {});

  /// tokens: i32[N] -> x_final [N,D], the normed output of the last block. `states`: one for each layer while decoding,
  /// empty in training; updated. Throws Error{bad_input} for another number of them.
  Value operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states = {}) const;
  /// What each layer keeps of a sequence while decoding.
  std::vector<std::vector<nn::StateSpec>> states() const;
  /// Logits of the rows x:[M,D] -> [M,V]. `rows`: i32[M], their numbers in the batch, where adapters have factors of
  /// each row (Weights::with_factors()); absent: they are the batch.
  Value logits(Value x, Value rows = {}) const;
  /// Their cross-entropy, without ever holding all of them. targets: i32[M] weight:[M].
  CrossEntropy loss(Value x, Value targets, Value weight) const;

 private:
  /// The embeddings of each layer [N,L,E], where there are some. x: the embedding of the model, scaled.
  Value layer_embeddings(Value tokens, Value x) const;

  /// Rows as the output multiplies them; [M,E] where a tied output lies behind a lens.
  Value before_output(Value x) const;

  Value embedding_, positions_;  // positions_: where they are learned
  Value lens_, output_lens_;     // [D,E] and [E,D], or absent; output_lens_: where the output is tied
  Value layer_embedding_;        // [V,L E] or absent
  nn::Linear layer_map_;         // [L E,D]
  nn::RmsNorm layer_norm_;       // [E]
  std::vector<int64_t> kv_source_;
  nn::Scale embedding_scale_;
  std::vector<nn::Block> blocks_;
  nn::Norm norm_;
  nn::Scale scale_;  // of logits
  Value output_;     // [V,D]; the embedding itself where it is tied
  double softcap_;   // 0: none
  std::vector<nn::Adapter> embedding_adapters_, output_adapters_;
};

/// Transformer::states() of a model.
std::vector<std::vector<nn::StateSpec>> states_of(const ModelSpec& spec);

}  // namespace toy

// From a ModelSpec to values: embedding, blocks, final norm, output projection.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/models/spec.h"
#include "toy/nn/blocks.h"

namespace toy {

/// What enters the blocks.
struct Embedded {
  Value x;            ///< [N,D]
  Value layers = {};  ///< [N,L,E]: what each block adds by itself (nn::LayerInput), or absent
};

/// From tokens to rows.
class Embedder {
 public:
  /// Declares its tensors.
  Embedder(const ModelSpec& spec, const Weights& weights);
  /// tokens: i32[N]; of pictures f32[N,C P P], see VisionSpec
  Embedded operator()(Value tokens, const nn::Context& ctx) const;
  Value matrix() const { return matrix_; }  ///< [V,D]; [V,E] where there is a lens
  Value lens() const { return lens_; }      ///< [D,E] or absent

 private:
  /// patches: [N,C P P]
  Value of_patches(Value patches, const nn::Context& ctx) const;
  /// x: the embedding of the model, scaled.
  Value of_layers(Value tokens, Value x) const;

  Value matrix_, lens_;
  std::vector<nn::Adapter> adapters_;
  nn::Scale scale_;
  nn::Linear patches_;  // [D,C P P], of pictures
  Value class_;         // [D] or absent
  Value distilled_;     // [D] or absent
  Value positions_;     // [C,D], where they are learned
  Value types_;         // [T,D] or absent
  nn::Maybe<nn::Norm> norm_;
  Value layer_embedding_;   // [V,L E] or absent
  nn::Linear layer_map_;    // [L E,D]
  nn::RmsNorm layer_norm_;  // [E]
};

/// The blocks of a model: from rows to rows.
class Stack {
 public:
  /// Declares the tensors of all layers, whose names begin with `blocks` and the layer's number. `positions`: see
  /// Transformer.
  Stack(const ModelSpec& spec, const Weights& weights, int64_t positions, std::string blocks = "blk.");
  /// [N,D] -> [N,D]. `states`: one for each layer while decoding, empty in training; updated. Throws Error{bad_input}
  /// for another number of them.
  Value operator()(const Embedded& in, const nn::Context& ctx, std::span<nn::LayerState> states = {}) const;
  /// What each layer keeps of a sequence while decoding.
  std::vector<std::vector<nn::StateSpec>> states() const;

 private:
  std::string name_;  // of its blocks, without their numbers
  std::vector<int64_t> kv_source_;
  std::vector<nn::Block> blocks_;
};

/// What comes after the blocks: the final norm, and from normed rows to logits.
class Head {
 public:
  /// Declares its tensors; a tied output is the embedder's matrix.
  Head(const ModelSpec& spec, const Weights& weights, const Embedder& embedder);
  /// x_final [N,D]
  Value norm(Value x) const;
  /// Logits of normed rows x:[M,D] -> [M,V]. `rows`: i32[M], their numbers in the batch, where adapters have factors of
  /// each row (Weights::with_factors()); absent: they are the batch.
  Value logits(Value x, Value rows = {}) const;
  /// The mean of the logits of a picture's class token x and its distillation token, both [M,D] -> [M,V].
  Value logits_of_both(Value x, Value distilled) const;
  /// Scores of pooled states x:[M,D], normed as the model's are -> [M,n]. Throws Error{bad_input} for a model without
  /// such a head. Training drops elements of what the last map takes, as transformers does.
  Value scores(Value x, const nn::Context& ctx = {}) const;
  /// Their cross-entropy, without ever holding all of them. targets: i32[M] weight:[M].
  CrossEntropy loss(Value x, Value targets, Value weight) const;

 private:
  /// Rows as the output multiplies them; [M,E] where a tied output lies behind a lens.
  Value before_output(Value x) const;

  nn::Maybe<nn::Norm> norm_;
  nn::Scale scale_;  // of logits
  Value output_;     // [V,D]; the embedding itself where it is tied
  Value bias_;       // [V] of a classifier or where masks are filled in, or absent
  std::vector<nn::Linear> embedding_maps_;
  nn::Linear mask_dense_;  // [D,D] where masks are filled in, or absent
  nn::Maybe<nn::Norm> mask_norm_;
  nn::Linear distilled_;    // [V,D] of the distillation token, or absent
  Value lens_;              // [E,D] of a tied output, or absent
  nn::Linear score_dense_;  // [D,D] of a ScoreHead, or absent
  nn::Maybe<nn::Norm> score_norm_;
  nn::Linear scores_;  // [n,D], or absent
  std::vector<nn::Adapter> adapters_;
  double softcap_;  // 0: none
};

/// A model whose weights are values of a graph. Build one for each graph.
struct Transformer {
  /// Declares every tensor of the model, in the order of files. `positions`: how many there are in the batches that it
  /// is called with; 0: it is not called. `random`: i32[3], seed and step of the adapters' dropout; absent: none.
  Transformer(const ModelSpec& spec, Weights weights, int64_t positions, Value random = {});

  /// tokens: i32[N] -> x_final [N,D], the normed output of the last block. `states`: see Stack.
  Value operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states = {}) const {
    return head.norm(stack(embedder(tokens, ctx), ctx, states));
  }

  Embedder embedder;
  Stack stack;
  Head head;
};

/// Stack::states() of a model.
std::vector<std::vector<nn::StateSpec>> states_of(const ModelSpec& spec);

}  // namespace toy

// Residual blocks: (x, state) -> (x, state). One code for training, prefill and decoding; only the state differs.
#pragma once

#include <optional>

#include "toy/nn/primitives.h"

namespace toy::nn {

/// What one layer carries from call to call while decoding, as values of the graph. Absent in training, where a batch
/// holds complete sequences. A layer replaces what it updates.
struct LayerState {
  std::optional<KvPages> kv;  ///< attention: pages of keys and values
  Value page_table = {};      ///< i32[S,G]: which of them each sequence has
};

/// What all layers of one graph share.
struct Context {
  Batch batch;
  Dropout dropout = {};  ///< of the embedding's output, the mixers' and the ffns'; only in training
};

/// Causal self-attention with grouped queries (Ainslie et al. 2023). x:[N,D] -> [N,D].
struct Attention {
  Heads q;     ///< H of them
  Heads k, v;  ///< K of them; H is a multiple of K
  Linear out;  ///< [D,H P]
  AttentionAttrs attrs;
  Value sinks = {};  ///< [H] a score of each head that takes weight and gives nothing (Xiao et al. 2024); or absent
  /// x:[N,D] -> [N,D]. With `state.kv` the rows are appended to the pages and attend to them.
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
};

/// Transformer block: x + mixer, then x + ffn, with norms before these (GPT-2, Llama), after (OLMo 2), or both (Gemma
/// 2).
struct Block {
  Maybe<Norm> mixer_norm;
  Attention mixer;
  Maybe<Norm> mixer_out_norm;
  Maybe<Norm> ffn_norm;
  Ffn ffn;
  Maybe<Norm> ffn_out_norm;
  Scale scale;  ///< of what is added to the rows (Granite)
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
};

}  // namespace toy::nn

// Residual blocks: (x, state) -> (x, state). One code for training, prefill and decoding; only the state differs.
#pragma once

#include <optional>

#include "toy/nn/primitives.h"

namespace toy::nn {

/// What one layer carries from call to call while decoding, as values of the graph. Absent in training, where a batch
/// holds complete sequences. A layer replaces what it updates.
struct LayerState {
  std::optional<KvPages> kv;  ///< attention: pages of keys and values
};

/// What all layers of one graph share.
struct Context {
  Batch batch;
  Rope rope;
  Value page_table;      ///< i32[S,G]: the pages of each sequence; absent in training
  Dropout dropout = {};  ///< of the embedding's output, the mixers' and the ffns'; only in training
};

/// Causal self-attention with grouped queries (Ainslie et al. 2023) and, where the model has them, rotary
/// positions. x:[N,D] -> [N,D].
struct Attention {
  Linear q, k, v;                         ///< [H P,D], [K P,D], [K P,D]
  std::optional<RmsNorm> q_norm, k_norm;  ///< [P], over each head (Henry et al. 2020)
  Linear out;                             ///< [D,H P]
  int64_t heads, kv_heads, d_head;
  int64_t window = 0;  ///< 0: all positions before
  /// x:[N,D] -> [N,D]. With `state.kv` the rows are appended to the pages and attend to them.
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
};

/// Pre-norm transformer block.
struct Block {
  Norm mixer_norm;
  Attention mixer;
  Norm ffn_norm;
  Ffn ffn;
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
};

}  // namespace toy::nn

// Residual blocks: (x, state) -> (x, state). One code for training, prefill and decoding; only the state differs.
#pragma once

#include <optional>

#include "toy/nn/primitives.h"

namespace toy::nn {

/// What one layer carries from call to call while decoding, as values of the graph. Absent in training, where a batch
/// holds complete sequences. A layer replaces what it updates. A layer without keys and values of its own gets the
/// state of the layer that it takes them from, as that left it.
struct LayerState {
  Value keys = {}, values = {};  ///< attention: of the rows, where there are no pages; set by the layer
  std::optional<KvPages> kv;     ///< attention: pages of keys and values
  Value page_table = {};         ///< i32[S,G]: which of them each sequence has
};

/// What all layers of one graph share.
struct Context {
  Batch batch;
  Dropout dropout = {};  ///< of the embedding's output, the mixers' and the ffns'; only in training
};

/// Causal self-attention with grouped queries (Ainslie et al. 2023). x:[N,D] -> [N,D].
struct Attention {
  Heads q;     ///< H of them
  Heads k, v;  ///< K of them; H is a multiple of K. Without a map of v, it is what the map of k gives (Gemma 4)
  Linear out;  ///< [D,H P]
  AttentionAttrs attrs;
  bool own_kv =
      true;          ///< false: keys and values are those of the state, and k and v are not used (Brandon et al. 2024)
  Value sinks = {};  ///< [H] a score of each head that takes weight and gives nothing (Xiao et al. 2024); or absent
  /// x:[N,D] -> [N,D]. With `state.kv` the rows are appended to the pages and attend to them.
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
};

/// What a layer makes of an embedding of its own: x + norm(proj(gelu(gate(x)) * embedding)) (Gemma 3n). x:[N,D]
/// embedding:[N,E] -> [N,D].
struct LayerInput {
  Linear gate;  ///< [E,D]
  Linear proj;  ///< [D,E]
  Norm norm;
  Value operator()(Value x, Value embedding) const {
    return x + norm(proj(gated(Gate::gelu_tanh, gate(x), embedding)));
  }
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
  std::optional<LayerInput> input = {};
  Value output_scale = {};  ///< [1] or absent: of the rows (Gemma 4)
  /// `embedding`: [N,E], where there is an input.
  Value operator()(Value x, LayerState& state, const Context& ctx, Value embedding = {}) const;
};

}  // namespace toy::nn

// Residual blocks: (x, state) -> (x, state). One code for training, prefill and decoding; only the state differs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "toy/nn/primitives.h"

namespace toy::nn {

/// A tensor that a layer keeps of each sequence from call to call, as the layer declares it.
struct StateSpec {
  enum class Kind {
    keys,      ///< of every position, in pages
    values,    ///< of every position, in pages
    sequence,  ///< one f32 tensor of a sequence. It cannot go back to earlier positions. At position 0 it is zeros,
               ///< whatever it holds
  } kind;
  std::string name;    ///< within the layer
  Shape shape;         ///< keys, values: {heads, width}; sequence: of the tensor
  int64_t window = 0;  ///< keys, values: how many positions a row sees; 0: all
};

/// What one layer carries from call to call while decoding, as values of the graph. Absent in training, where a batch
/// holds complete sequences. A layer replaces what it updates. A layer without keys and values of its own gets the
/// state of the layer that it takes them from, as that left it.
struct LayerState {
  std::vector<Value> slots = {};  ///< one for each of the mixer's states: [pages,...] or [S,...]; none in training
  Value page_table = {};          ///< i32[S,G]: which pages each sequence has
  Value keys = {}, values = {};   ///< attention: those of the rows, where there are no slots; set by the layer
  Value balance = {};             ///< attention: [P] by which the keys in the slots were multiplied; set by the layer
};

/// Rows of a batch as attention sees them.
/// Sequences that share their beginnings, which are computed once: attention sees each of them complete, in M rows.
struct Spread {
  Value from = {};                     ///< i32[M] which of the N rows it is; absent: all sequences are complete
  Value back = {};                     ///< i32[N] one of the M rows that it is
  Value sequence = {}, position = {};  ///< i32[M] as Batch's
};
/// What all layers of one graph share.
struct Context {
  Batch batch;
  Dropout dropout = {};   ///< of the embedding's output, the mixers' and the ffns'; only in training
  Value until = {};       ///< i32[N] the position before which a row sees others; absent: up to its own
  Value token_type = {};  ///< i32[N] rows of the table of token types; absent: the first one
  Spread spread = {};     ///< of training
};

/// The part of a block in which rows see earlier rows of their sequence: attention, a recurrence, a convolution.
struct Mixer {
  std::vector<StateSpec> states;  ///< what it keeps of a sequence while decoding
  /// x:[N,D] -> [N,D]. It replaces what it updates in the state.
  std::function<Value(Value x, LayerState& state, const Context& ctx)> call;
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

/// Transformer block: x + mixer, then x + ffn, with norms before these (GPT-2, Llama), after (OLMo 2), both (Gemma 2),
/// or of the sums (BERT). One of the two may be absent, and its norms are.
struct Block {
  Maybe<Norm> mixer_norm;
  std::optional<Mixer> mixer;
  Maybe<Norm> mixer_out_norm;
  Maybe<Norm> ffn_norm;
  std::optional<Ffn> ffn;
  Maybe<Norm> ffn_out_norm;
  Scale scale;            ///< of what is added to the rows (Granite)
  Scale norm_scale = {};  ///< of what goes into mixer and ffn (Sun et al. 2025)
  Maybe<Norm> mixer_sum_norm = {}, ffn_sum_norm = {};
  std::optional<LayerInput> input = {};
  Value output_scale = {};  ///< [1] or absent: of the rows (Gemma 4)
  /// `embedding`: [N,E], where there is an input.
  Value operator()(Value x, LayerState& state, const Context& ctx, Value embedding = {}) const;
};

}  // namespace toy::nn

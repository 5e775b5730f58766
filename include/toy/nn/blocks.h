// Residual blocks: (x, state) -> (x, state). One code for training, prefill and decoding; only the state differs.
#pragma once

#include <optional>
#include <string>
#include <variant>
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
  std::vector<Value> slots = {};  ///< one for each of the layer's states(): [pages,...] or [S,...]; none in training
  Value page_table = {};          ///< i32[S,G]: which pages each sequence has
  Value keys = {}, values = {};   ///< attention: those of the rows, where there are no slots; set by the layer
};

/// What all layers of one graph share.
struct Context {
  Batch batch;
  Dropout dropout = {};  ///< of the embedding's output, the mixers' and the ffns'; only in training
};

/// Scalable softmax (Nakanishi 2025): scores times s log(n), where the query sees n keys, so that attention does not
/// fade as n grows. It is applied to the queries.
struct ScalableSoftmax {
  Value s;         ///< [H], begins as 0.168
  int64_t window;  ///< 0: all positions before
  /// queries:[N,H,P] -> [N,H,P].
  Value operator()(Value queries, const Batch& batch) const;
};

/// Differential attention (Ye et al. 2024): heads come in pairs, whose weights are subtracted, A1 - lambda A2, which
/// cancels what both give to irrelevant keys. A pair has values of width 2 P:
///   o = (1 - lambda_init) rms_norm((A1 - lambda A2) [v1 v2])
///   lambda = exp(q1.k1) - exp(q2.k2) + lambda_init
struct DifferentialAttention {
  Value q1, k1, q2, k2;  ///< [P], of lambda
  double lambda_init;    ///< 0.8 - 0.6 exp(-0.3 l) in layer l = 0, 1, ...
  RmsNorm norm;          ///< [2 P]
  /// What attention is given, so that one call makes the four products A1 v1, A1 v2, A2 v1, A2 v2 of each pair: heads
  /// twice. queries:[N,H,P], of which kv heads are K.
  static Value queries(Value queries, int64_t kv_heads);
  static Value keys(Value keys);      ///< keys:[N,K,P] -> [N,2 K,P]
  static Value values(Value values);  ///< values:[N,K,P] -> [N,2 K,P]
  /// What it returned, o:[N,2 H,P] -> [N,H,P].
  Value operator()(Value o, int64_t kv_heads) const;
};

/// Causal self-attention with grouped queries (Ainslie et al. 2023). x:[N,D] -> [N,D].
struct Attention {
  Heads q;     ///< H of them
  Heads k, v;  ///< K of them; H is a multiple of K. Without a map of v, it is what the map of k gives (Gemma 4)
  Linear out;  ///< [D,H P]
  AttentionAttrs attrs;
  bool own_kv =
      true;  ///< false: keys and values are those of the state, and k and v are not used (Brandon et al. 2024)
  bool gated = false;  ///< of each head, the map of q gives P rows of q, then P of a gate of its output (Qwen3-Next)
  Value sinks = {};    ///< [H] a score of each head that takes weight and gives nothing (Xiao et al. 2024); or absent
  std::optional<ScalableSoftmax> scalable = {};
  std::optional<DifferentialAttention> differential = {};
  /// x:[N,D] -> [N,D]. With slots the rows are appended to their pages and attend to them.
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;

 private:
  std::pair<Value, Value> queries_and_gate(Value x, const Batch& batch) const;
};

/// Gated DeltaNet (Yang et al. 2024): each value head has a state, a matrix that maps keys to values, which every row
/// forgets a little, corrects and reads. x:[N,D] -> [N,D].
struct GatedDeltaNet {
  int64_t keys, heads, width;      ///< K key heads, H value heads, P
  Linear qkv;                      ///< [(2 K + H) P,D]: rows of q, k and v
  std::optional<CausalConv> conv;  ///< of q, k and v, then silu
  Linear gate;                     ///< [H P,D] z
  Linear beta, alpha;              ///< [H,D]
  Linear beta_alpha;               ///< [2 H,D] instead of both: for each key head the rows of beta, those of alpha
  Value dt_bias;                   ///< [H]
  Value a_log;                     ///< [H]
  RmsNorm norm;                    ///< [P]
  Linear out;                      ///< [D,H P]
  DeltaRuleAttrs attrs;
  Scale rates = {};  ///< of sigmoid(beta): 2 lets a row turn what the state has for its key around
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// A short convolution between two gates (Liquid AI 2025): out(c * conv(b * u)). x:[N,D] -> [N,D].
struct GatedConv {
  Linear in;        ///< [3 D,D]: rows of b, c and u
  CausalConv conv;  ///< of b * u
  Linear out;       ///< [D,D]
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// A convolution with filters as long as the context may be, and a gate: out(silu(gate) * conv(u)), after Hyena (Poli
/// et al. 2023), whose filters follow from a network. Here they are weights. x:[N,D] -> [N,D].
struct LongConv {
  Linear in;        ///< [2 D,D]: rows of the gate and u
  CausalConv conv;  ///< of u
  Linear out;       ///< [D,D]
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// Mamba-2 (Dao and Gu 2024): each head has a state, a matrix that every row forgets a little, adds x b^T to and reads
/// with c; groups of heads share b and c. x:[N,D] -> [N,D].
struct Mamba2 {
  int64_t heads, width, state_width, groups;  ///< H, P, N, G
  Linear in;                                  ///< [2 H P + 2 G N + H,D]: rows of z, x, b, c and the step
  std::optional<CausalConv> conv;             ///< of x, b and c, then silu
  Value dt_bias;                              ///< [H] of the step, before its softplus
  Value a_log;                                ///< [H,1]
  Value skip;                                 ///< [H,1]: times x is added to what is read
  Value norm;                                 ///< [G,H P / G] gains of an rms norm of each group, after the gate
  float eps;
  Linear out;  ///< [D,H P]
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// Kimi Delta Attention (Kimi Team 2025): Gated DeltaNet with a decay of each element of a key. x:[N,D] -> [N,D].
struct KimiDelta {
  int64_t heads, width;  ///< H, P
  Linear q, k, v;        ///< [H P,D]
  CausalConv conv_q, conv_k, conv_v;
  Linear decay_in, decay_out;  ///< [P,D], [H P,P]: the decay from x through a narrow map
  Linear beta;                 ///< [H,D]
  Value a_log;                 ///< H of them
  Value dt_bias;               ///< [H P]
  Linear gate_in, gate_out;    ///< [P,D], [H P,P] the same of the gate
  RmsNorm norm;                ///< [P]
  Linear out;                  ///< [D,H P]
  Scale rates = {};            ///< as in GatedDeltaNet
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// Latent attention (DeepSeek-AI 2024) without positions. A position keeps [c p], a normed latent vector and a key that
/// all heads share; head h has the key [key_h^T c, p] and the value value_h c. Queries and outputs are mapped instead
/// of these: q.(key_h^T c) = (key_h q).c, so all heads attend to the same vectors. x:[N,D] -> [N,D].
struct LatentAttention {
  int64_t heads, width, shared_width;  ///< H, Z, of p
  Linear q;                            ///< rows of each head: those that meet c, those that meet p
  Linear kv;                           ///< rows of c and p
  RmsNorm norm;                        ///< [Z] of c
  Value key, value;                    ///< [H,Z,keys], [H,values,Z]
  Linear out;
  AttentionAttrs attrs;
  Value operator()(Value x, LayerState& state, const Context& ctx) const;
  std::vector<StateSpec> states() const;
};

/// The part of a block in which rows see earlier rows of their sequence.
struct Mixer {
  std::variant<Attention, GatedDeltaNet, GatedConv, LongConv, Mamba2, KimiDelta, LatentAttention> kind;
  /// x:[N,D] -> [N,D].
  Value operator()(Value x, LayerState& state, const Context& ctx) const {
    return std::visit([&](const auto& mixer) { return mixer(x, state, ctx); }, kind);
  }
  /// What it keeps of a sequence while decoding.
  std::vector<StateSpec> states() const {
    return std::visit([](const auto& mixer) { return mixer.states(); }, kind);
  }
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
/// 2). One of the two may be absent, and its norms are.
struct Block {
  Maybe<Norm> mixer_norm;
  std::optional<Mixer> mixer;
  Maybe<Norm> mixer_out_norm;
  Maybe<Norm> ffn_norm;
  std::optional<Ffn> ffn;
  Maybe<Norm> ffn_out_norm;
  Scale scale;            ///< of what is added to the rows (Granite)
  Scale norm_scale = {};  ///< of what goes into mixer and ffn (Sun et al. 2025)
  std::optional<LayerInput> input = {};
  Value output_scale = {};  ///< [1] or absent: of the rows (Gemma 4)
  /// `embedding`: [N,E], where there is an input.
  Value operator()(Value x, LayerState& state, const Context& ctx, Value embedding = {}) const;
};

}  // namespace toy::nn

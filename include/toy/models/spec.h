// A model as data: dimensions and a list of layers.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "toy/models/rope.h"
#include "toy/nn/tensor_spec.h"
#include "toy/ops/attrs/structs.h"

namespace toy {

/// Which linear maps of a layer have a bias.
struct Biases {
  bool q = false, k = false, v = false, out = false, gate = false, up = false, down = false;
  bool operator==(const Biases&) const = default;
};
/// A flag and the name of its tensor: "attn_q" has "attn_q.weight" and perhaps "attn_q.bias".
struct BiasName {
  const char* tensor;
  bool Biases::*flag;
};
inline constexpr BiasName kBiasNames[] = {
    {"attn_q", &Biases::q},      {"attn_k", &Biases::k},  {"attn_v", &Biases::v},      {"attn_output", &Biases::out},
    {"ffn_gate", &Biases::gate}, {"ffn_up", &Biases::up}, {"ffn_down", &Biases::down},
};

/// What a feed-forward layer computes.
enum class FfnKind {
  swiglu,      ///< down(silu(gate(x)) * up(x))
  geglu,       ///< down(gelu_tanh(gate(x)) * up(x)): Gemma
  geglu_erf,   ///< the same with the exact gelu
  gelu,        ///< down(gelu_tanh(up(x))): GPT-2
  gelu_erf,    ///< the same with the exact gelu: BERT
  swiglu_oai,  ///< down(swiglu_oai(gate(x), up(x))): gpt-oss
  relu2,       ///< down(relu(up(x))^2): Nemotron-H
};
/// "swiglu", ...
std::string_view name_of(FfnKind kind);
/// Does a map "ffn_gate" belong to it?
constexpr bool has_gate(FfnKind kind) {
  return kind != FfnKind::gelu && kind != FfnKind::gelu_erf && kind != FfnKind::relu2;
}

/// Which of a model's rotary positions turn the queries and keys of a layer.
enum class LayerRope {
  global,  ///< ModelSpec::rope
  local,   ///< ModelSpec::local_rope_base: layers of Gemma 3 with a window
  none,    ///< nothing turns: every fourth layer of SmolLM3
};

/// A mixture of experts instead of one ffn (Shazeer et al. 2017): a row goes to the experts that its router scores
/// highest, and adds up what they return, weighted by softmax of the scores.
struct Experts {
  int64_t count = 0;         ///< E; 0: there is one ffn
  int64_t used = 0;          ///< U: experts of a row
  bool renormalized = true;  ///< the weights of those used are divided by their sum
  int64_t shared_d_ff = 0;   ///< width of an ffn that every row uses as well; 0: none
  bool shared_gate = false;  ///< what that returns is multiplied by sigmoid of a score of the row (Qwen 2)
  bool biases = false;       ///< of the router and of every expert's maps
  enum Score { softmax, sigmoid } score = softmax;  ///< what the router's outputs become
  /// "exp_probs_b" [E] is added to the scores that choose, and not to those that weigh (DeepSeek-AI 2024). It has no
  /// gradient.
  bool choice_bias = false;
  int64_t latent = 0;  ///< Z: width that rows are mapped to in front of the experts, and from behind them; 0: D
  float sum_eps = 0;   ///< added to the sum that weights are divided by (LFM2)
  float scale = 1;     ///< the weights are multiplied by this
  bool operator==(const Experts&) const = default;
};

/// What a model normalizes with: around mixers and ffns, and at the end.
enum class NormKind {
  rms,    ///< w x / rms(x)
  layer,  ///< w (x - mean(x)) / sqrt(var(x) + eps) + b
};
/// Where the norms of a block are: of what goes into mixer and ffn, or of what comes out and is added to the rows.
enum class NormPlace {
  before,  ///< "attn_norm", "ffn_norm"
  after,   ///< "post_attention_norm", "post_ffw_norm": OLMo 2
  both,    ///< Gemma 2
  sum,     ///< of the rows after it was added: "attn_output_norm", "layer_output_norm": BERT
};
/// How the rows of a layer see earlier ones. src/models/mixers has a file for each kind.
enum class MixerKind {
  attention,
  gated_delta,  ///< Gated DeltaNet (Yang et al. 2024)
  mamba2,       ///< Mamba-2 (Dao and Gu 2024)
  short_conv,   ///< a convolution of a few rows between two gates (LFM2)
  long_conv,    ///< a convolution as long as the context may be, and a gate (Poli et al. 2023)
  kimi_delta,   ///< Kimi Delta Attention (Kimi Team 2025)
  latent,       ///< attention to one latent vector of each position (DeepSeek-AI 2024), without positions
  none,         ///< the layer is only an ffn (Nemotron-H)
};

/// "attention", ...
std::string_view name_of(MixerKind kind);

/// A Gated DeltaNet layer: key and value heads of one width, whose states are matrices of this width.
struct DeltaNet {
  int64_t key_heads = 0;                ///< K
  int64_t value_heads = 0;              ///< H, a multiple of K
  int64_t width = 0;                    ///< P
  HeadMap heads = HeadMap::interleave;  ///< which key head a value head uses
  bool packed = false;  ///< beta and alpha are rows of one tensor "ssm_ba", taking turns by key head (Qwen3-Next)
  bool negative_eigenvalues = false;  ///< beta is between 0 and 2 instead of 1 (Grazzi et al. 2024)
  int64_t conv = 0;                   ///< W: columns of its filter; 0: there is none
  bool operator==(const DeltaNet&) const = default;
};

/// A Kimi Delta layer: as Gated DeltaNet, with as many key as value heads.
struct KimiDelta {
  int64_t heads = 0;                  ///< H
  int64_t width = 0;                  ///< P
  bool negative_eigenvalues = false;  ///< as in DeltaNet
  int64_t conv = 0;                   ///< W: columns of its filters
  bool operator==(const KimiDelta&) const = default;
};

/// A Mamba-2 layer: heads whose states are matrices of their width and N.
struct MambaSizes {
  int64_t heads = 0;   ///< H
  int64_t width = 0;   ///< P
  int64_t state = 0;   ///< N
  int64_t groups = 1;  ///< G of heads that write and read their states alike; H is a multiple of G
  int64_t conv = 0;    ///< W: columns of its filter; 0: there is none
  bool operator==(const MambaSizes&) const = default;
};

/// A short convolution.
struct ShortConv {
  int64_t width = 0;  ///< W positions
  bool operator==(const ShortConv&) const = default;
};
/// A convolution as long as the context may be.
struct LongConv {
  int64_t width = 0;  ///< W positions
  bool operator==(const LongConv&) const = default;
};

/// Latent attention: what a position keeps for all heads, and the heads' keys and values that follow from it.
struct LatentSizes {
  int64_t width = 0;       ///< Z of the latent vector
  int64_t key = 0;         ///< elements of a head's key that follow from the latent vector
  int64_t shared_key = 0;  ///< elements after those, which all heads share
  int64_t value = 0;       ///< elements of a head's value
  bool operator==(const LatentSizes&) const = default;
};

/// A mixer: its kind, and the sizes of that kind. Alternatives are in the order of MixerKind: sizes of attention are
/// the layer's own, as those of other mixers may follow from them, and `none` has no sizes.
struct MixerSpec
    : std::variant<std::monostate, DeltaNet, MambaSizes, ShortConv, LongConv, KimiDelta, LatentSizes, std::monostate> {
  using variant::variant;
  /// Of this kind, with sizes that are not set yet.
  MixerSpec(MixerKind kind = MixerKind::attention);
  /// Its kind.
  operator MixerKind() const { return MixerKind(index()); }
  bool operator==(const MixerSpec&) const = default;
  /// Whatever the sizes.
  bool operator==(MixerKind kind) const { return MixerKind(index()) == kind; }
};

/// One layer.
struct LayerSpec {
  MixerSpec mixer = {};
  int64_t heads = 0;     ///< H query heads
  int64_t kv_heads = 0;  ///< K kv heads; H is a multiple of K
  int64_t d_head = 0;    ///< P; H P may differ from D
  int64_t d_ff = 0;      ///< F; 0: the layer is only a mixer
  /// Attend to the last `window` positions, with the row's own; where a model is not causal, to as many after it, too.
  /// 0: to all.
  int64_t window = 0;
  /// An rms norm of q and k before rope. head_norm: of each head, gains [P] (Henry et al. 2020); row_norm: of all heads
  /// as one, gains [H P] and [K P] (OLMo 2). Gains are in the row order of q and k.
  enum QkNorm { no_qk_norm, head_norm, row_norm } qk_norm = no_qk_norm;
  LayerRope rope = LayerRope::global;
  int64_t rope_dims = 0;  ///< how many of the P elements of a head turn, the first ones; 0: all
  enum Softmax { standard, scalable } softmax = standard;  ///< scalable: nn::ScalableSoftmax
  bool differential = false;                               ///< nn::DifferentialAttention
  bool depth_scale = false;  ///< norms before mixer and ffn of layer l = 1, 2, ... are divided by sqrt(l) (Sun 2025)
  NormPlace norm_place = NormPlace::before;
  bool mixer_norm = true;       ///< false: what goes into the mixer is not normed (ModernBERT's first layer)
  float attention_scale = 0;    ///< scores are q.k times this; 0: 1/sqrt(P)
  float attention_softcap = 0;  ///< c: scores become c tanh(score / c) (Gemma 2); 0: they stay
  bool attention_gate = false;  ///< of each head's output: sigmoid of more rows of q's map (Qwen3-Next)
  bool sinks = false;           ///< each head has one more score, "attn_sinks" [H], whose value is 0 (gpt-oss)
  Biases bias;
  FfnKind ffn = FfnKind::swiglu;
  Experts experts;             ///< each an ffn of this kind and of width F
  bool v_norm = false;         ///< each head of v goes through an rms norm without gains (Gemma 4)
  bool v_is_k = false;         ///< there is no map of v: it is what that of k gives, before norm and rope (Gemma 4)
  bool shared_kv = false;      ///< keys and values are those of kv_source() (Gemma 3n)
  bool output_scale = false;   ///< what the layer returns is multiplied by "layer_output_scale" [1] (Gemma 4)
  bool fused_qkv = false;      ///< a file holds q, k and v as rows of one tensor "attn_qkv"; in memory they are three
  bool fused_gate_up = false;  ///< a file holds gate and up as rows of one tensor "ffn_up"; in memory they are two
  bool operator==(const LayerSpec&) const = default;
};

/// How a model knows the position of a token.
enum class PositionKind {
  rope,     ///< queries and keys turn (RopeSpec)
  learned,  ///< a table "position_embd" [context,D] is added to the embedding; there is nothing beyond it
  alibi,    ///< scores of attention fall with the distance of two tokens (AttentionAttrs::alibi); only of encoders
};

/// What a model sees instead of tokens: a square picture, cut into square patches from left to right and from the top.
/// A patch is a row of the model, its values in the order channel, row, column.
struct VisionSpec {
  int64_t image = 0;  ///< S: side in pixels; 0: the model reads tokens
  int64_t patch = 0;  ///< side of a patch, which divides S
  int64_t channels = 0;
  /// A row in front of the patches, "v.class_embd", whose output decides on the class; else the mean over the patches.
  bool class_token = false;
  /// A second such row, "v.distill_embd", with a head of its own, "head_dist"; logits are the mean of both (Touvron et
  /// al. 2021).
  bool distilled = false;
  bool sincos = false;  ///< positions begin as sines and cosines of row and column (Beyer et al. 2022)
  std::vector<float> mean = {}, std = {};  ///< of each channel: a value v of 0 to 255 enters as (v / 255 - mean) / std
  bool there() const { return image > 0; }
  int64_t rows() const { return (image / patch) * (image / patch) + tokens(); }  ///< of a picture
  int64_t tokens() const { return int64_t(class_token) + distilled; }            ///< rows before those of the patches
  int64_t values() const { return channels * patch * patch; }                    ///< of a patch
  bool operator==(const VisionSpec&) const = default;
};

/// A head that gives a text scores, as rerankers and classifiers of texts have it: of the state of its first token, or
/// in causal models its last.
struct ScoreHead {
  int64_t labels = 0;  ///< n: rows of "cls.output"; 0: there is none
  /// What the state goes through before: nothing, tanh(cls h + b) (BERT), or norm(gelu(cls h)) (ModernBERT).
  enum Dense { none, tanh, gelu_norm } dense = none;
  bool mean = false;  ///< of the mean of all states instead
  /// Of a classifier, the class that each score is of; empty: a reranker.
  std::vector<std::string> names = {};
  bool classifies() const { return !names.empty(); }
  bool there() const { return labels > 0; }
  bool operator==(const ScoreHead&) const = default;
};

/// Which of a model's tensors training changes: those whose name fits a pattern of `train` (all, where there is none)
/// and none of `freeze`.
struct Roles {
  std::vector<std::string> train = {}, freeze = {};
  bool operator==(const Roles&) const = default;
};

/// A projection lens: embeddings [V,E] of another model, which stay as they are, behind a trained map [D,E]. A file has
/// their product instead, "token_embd.weight" [V,D]. A tied output multiplies by the same product: (x lens) donor^T.
inline constexpr const char *kDonorEmbedding = "token_embd.donor.weight", *kLens = "token_embd.lens.weight";

struct Family;
/// Families that a program adds to the built-in ones (toy/models/family.h); they go before built-in ones of their name.
using Families = std::vector<std::shared_ptr<const Family>>;

/// Everything about a model except its weights.
struct ModelSpec {
  std::string architecture = "llama";  ///< the family: how a file states all this
  std::string name;
  int64_t d_model = 0;  ///< D
  int64_t vocab = 0;    ///< V
  int64_t context = 0;  ///< positions the model was made for
  NormKind norm = NormKind::rms;
  float norm_eps = 1e-5f;                      ///< of every norm
  bool norm_bias = true;                       ///< of layer norms
  bool ffn_norm_is_post_attention = false;     ///< a file calls "ffn_norm" so: "post_attention_norm" (gpt-oss)
  bool output_norm_is_embedding_norm = false;  ///< a file calls "output_norm" so: "token_embd_norm" (LFM2)
  bool causal = true;           ///< tokens see those before them; false: all tokens of their text (an encoder)
  int64_t token_types = 0;      ///< T: rows of a table "token_types" that is added to the embedding (BERT); 0: none
  bool embedding_norm = false;  ///< "token_embd_norm", of the embedding (BERT)
  bool final_norm = true;       ///< "output_norm", of what the last block returns
  ScoreHead score = {};         ///< of a reranker or a classifier of texts
  /// F: an embedding is of states that went through two more maps, "dense_2" [F,D] and "dense_3" [D,F]
  /// (EmbeddingGemma); 0: none.
  int64_t embedding_inner = 0;
  /// Of a model that fills in masks: what the output multiplies is norm(gelu(mlm.dense x)), and logits have a bias.
  bool mask_head = false;
  VisionSpec vision = {};  ///< of a classifier of pictures, whose `vocab` are its classes
  PositionKind positions = PositionKind::rope;
  RopeSpec rope;                  ///< where positions are rope: of layers with LayerRope::global
  float local_rope_base = 10000;  ///< of layers with LayerRope::local, which nothing stretches
  bool tied = true;               ///< the output projection is the token embedding
  float embedding_scale = 1;      ///< the embedding of a token is multiplied by this; 0: by sqrt(D) (Gemma)
  float residual_scale = 1;       ///< what mixers and ffns add to the rows is multiplied by this (Granite)
  float logit_divisor = 1;        ///< logits are divided by this (Granite)
  int64_t layer_embedding = 0;    ///< E: width of an embedding of the token for each layer (Gemma 3n); 0: none
  float logit_softcap = 0;        ///< c: logits become c tanh(logit / c) (Gemma 2); 0: they stay
  std::vector<LayerSpec> layers;
  std::shared_ptr<const Family> family = {};  ///< where it is not a built-in one
  std::vector<AdapterSpec> adapters = {};     ///< in files of their own (toy/models/adapter.h)
  Roles roles = {};                           ///< in no file
  int64_t lens = 0;                           ///< E: see kLens; 0: none. In no file
  bool operator==(const ModelSpec&) const = default;

  /// Throws Error{bad_input} naming the dimension, its value and what would do; also for what files of the family
  /// cannot hold, such as layers of different sizes.
  void validate() const;
  /// Throws Error{bad_input} when the model cannot have that many positions: learned ones end at `context`. `option`:
  /// what asked for them, as the message should name it.
  void require_positions(int64_t wanted, std::string_view option) const;
};

/// The layer whose keys and values layer i uses: itself, or with shared_kv the last one before it that has its own and
/// a window if this one has a window. -1: there is none.
int64_t kv_source(const ModelSpec& spec, int64_t i);
/// Operations of a layer's mixer on one token besides its linear maps, where the token sees `visible` positions.
double mixer_flops(const ModelSpec& spec, const LayerSpec& layer, double visible);
/// The rotary positions of a layer; none where LayerRope::none or positions are learned.
std::optional<RopeSpec> rope_of(const ModelSpec& spec, const LayerSpec& layer);

/// The first layer whose heads turn by the model's own angles; the very first where none do.
const LayerSpec& first_turning(const ModelSpec& spec);
/// The one list of a model's tensors: what Transformer asks for, in the order in which it is stored. It says of each
/// whether training changes it, and whether it is part of an adapter; a ParamStore says in which type it is held.
std::vector<TensorSpec> tensors_of(const ModelSpec& spec);
/// Those that training changes.
std::vector<TensorSpec> trained_tensors(const ModelSpec& spec);
/// Does training leave some of its tensors as they are?
bool has_frozen(const ModelSpec& spec);
/// A tensor of a file: one of the model's tensors, or several whose rows follow each other.
struct FileTensor {
  std::string name;
  Shape shape;
  std::vector<TensorSpec> parts;
};
/// tensors_of() as a file holds them, without adapters. Of a lens, parts are the two factors.
std::vector<FileTensor> file_tensors(const ModelSpec& spec);
/// The share of a tensor that a token multiplies with: none of tables, of which it reads a row, and of experts those
/// that the row goes to.
double share_of_token(const ModelSpec& spec, const TensorSpec& tensor);
/// Number of parameters, without adapters.
int64_t parameter_count(const ModelSpec& spec);
/// Of those that training changes.
int64_t trained_count(const ModelSpec& spec);

/// Names that --size takes, and their dimensions.
std::vector<std::string> size_names();
/// The same of classifiers of pictures.
std::vector<std::string> image_size_names();
/// A named size or a JSON file of dimensions. `vocab` > 0 replaces the size's own (a tokenizer decides), `context` > 0
/// likewise. A file may name one of `more` as its architecture. Throws naming the nearest size.
ModelSpec model_spec(const std::string& size_or_file, int64_t vocab = 0, int64_t context = 0,
                     const Families& more = {});
/// Replaces the layers of a model by a list such as "gdn*3,attn": names of mixers (attn, gdn), maybe with options in
/// brackets, "attn(window=128,rope=none)*2,gdn"; the keys are those of JSON. The list repeats. A model whose family
/// cannot hold such layers becomes one of the architecture `toy`. Throws Error{bad_input} naming the position of what
/// does not parse, and where the number of layers is not a multiple of the list's.
void set_layers(ModelSpec& spec, std::string_view list);
/// Dimensions from JSON with the keys of docs/model-keys.md. Layers that differ are in a list "layers". Throws naming
/// `where`, the key and what is wrong.
ModelSpec spec_from_json(const nlohmann::json& json, const std::string& where, const Families& more = {});
/// What spec_from_json() reads.
nlohmann::ordered_json to_json(const ModelSpec& spec);

}  // namespace toy

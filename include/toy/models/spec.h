// A model as data: dimensions and a list of layers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "toy/models/rope.h"
#include "toy/tensor/shape.h"

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

/// One layer. Kinds to come: gated delta rule, mixture of experts.
struct LayerSpec {
  enum class Kind { attention } kind = Kind::attention;
  int64_t heads = 0;     ///< H query heads
  int64_t kv_heads = 0;  ///< K kv heads; H is a multiple of K
  int64_t d_head = 0;    ///< P; H P may differ from D
  int64_t d_ff = 0;      ///< F
  int64_t window = 0;    ///< attend to the last `window` positions; 0: to all
  bool qk_norm = false;  ///< rms norm of each head of q and k before rope, gains [P] in the row order of q and k
  Biases bias;
  bool operator==(const LayerSpec&) const = default;
};

/// Everything about a model but its weights.
struct ModelSpec {
  std::string architecture = "llama";
  std::string name;
  int64_t d_model = 0;  ///< D
  int64_t vocab = 0;    ///< V
  int64_t context = 0;  ///< positions the model was made for
  float rms_eps = 1e-5f;
  RopeSpec rope;
  bool tied = true;  ///< the output projection is the token embedding
  std::vector<LayerSpec> layers;
  bool operator==(const ModelSpec&) const = default;

  /// Throws Error{bad_input} naming the dimension, its value and what would do.
  void validate() const;
};

/// How a tensor is made before training, and whether weight decay applies to it.
struct TensorSpec {
  enum class Init { matrix, embedding, ones, zeros } init = Init::matrix;
  std::string name;
  Shape shape;
  bool decays() const { return shape.rank() >= 2; }
};

/// Every tensor of a model, in the order in which it is stored.
std::vector<TensorSpec> tensors_of(const ModelSpec& spec);
/// Number of parameters.
int64_t parameter_count(const ModelSpec& spec);

/// Names that --size takes, and their dimensions.
std::vector<std::string> size_names();
/// A named size or a JSON file of dimensions. `vocab` > 0 replaces the size's own (a tokenizer decides), `context` > 0
/// likewise. Throws naming the nearest size.
ModelSpec model_spec(const std::string& size_or_file, int64_t vocab = 0, int64_t context = 0);
/// Dimensions from JSON with the keys of docs/architecture.md. Throws naming `where`, the key and what is wrong.
ModelSpec spec_from_json(const nlohmann::json& json, const std::string& where);
/// What spec_from_json() reads.
nlohmann::ordered_json to_json(const ModelSpec& spec);

/// The candidate that is most like `word` (edit distance), or "" if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace toy

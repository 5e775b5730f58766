// Low-rank adapters of a model (LoRA, Hu et al. 2021): making them, and files of llama.cpp's kind in and out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/options.h"
#include "toy/models/model.h"

namespace toy {

/// An adapter that does not fit a model, because it was trained on another one.
class OtherBase : public Error {
 public:
  /// `why_so`: the part that does not fit. `stated`: the model that the adapter itself names as its own, or "".
  OtherBase(const std::string& path, const std::string& why_so, const std::string& stated = {})
      : Error(ErrorCode::bad_input, path + ": it is an adapter of another model: " + why_so),
        why(why_so),
        base(stated) {}
  std::string why, base;
};

/// What a new adapter is like.
struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32;                               ///< what the adapter adds is multiplied by alpha / rank
  bool dora = false;                               ///< with magnitudes (DoRA, Liu et al. 2024)
  bool pissa = false;                              ///< a and b begin as the principal part of the weight (PiSSA)
  bool rslora = false;                             ///< by alpha / sqrt(rank) instead (Kalajdzievski 2023)
  double dropout = 0;                              ///< part of an adapter's input that training zeroes
  double lr_ratio = 1;                             ///< learning rate of b over that of a (LoRA+, Hayou et al. 2024)
  std::vector<std::string> targets{"all-linear"};  ///< see lora_targets()

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Adapter";
    f({"rank", "Rank of the adapter: columns of B and rows of A", at_least(1), k}, o.rank);
    f({"alpha", "What the adapter adds is multiplied by alpha / rank", above(0), k}, o.alpha);
    f({"rslora", "Multiply by alpha / sqrt(rank) instead", {}, k}, o.rslora);
    f({"dora", "Also train a magnitude for each row of a map (DoRA); slower", {}, k}, o.dora);
    f({"pissa", "Begin A and B with the largest singular values of each map (PiSSA)", {}, k}, o.pissa);
    f({"lora_dropout", "Dropout rate of the adapter's input", from_to_below(0, 1), k}, o.dropout);
    f({"lora_plus", "Learning rate of B as a multiple of A's", above(0), k}, o.lr_ratio);
    f(text_option("targets", "Maps to adapt: all-linear, or patterns such as attn_[qv]=RANK:ALPHA", k, "PATTERN"),
      o.targets);
  }
};

/// Our name ("attn_q") for the last part of a module's in Hugging Face's Llama ("q_proj"), or "".
std::string name_of_hf_module(std::string_view module);
/// The weights that these targets name, in the order of tensors_of(). A target is `all-linear` (every linear map and
/// every expert, but neither output nor embeddings), or a pattern of names, in full ("blk.0.attn_q.weight"), without
/// ".weight" or without the block ("attn_[qv]"); PEFT's names for those of a Llama ("q_proj") work, too. "=RANK" or
/// "=RANK:ALPHA" may follow, for lora_adapter(). Throws Error{bad_input} naming the nearest one for a target that no
/// weight fits.
std::vector<TensorSpec> lora_targets(const ModelSpec& spec, const std::vector<std::string>& targets);
/// An adapter of these weights. Where several targets fit a weight, the last of them decides rank and alpha. Throws
/// Error{bad_input} naming the option, or the weight that a rank is too large for.
AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& options);

/// Can merge_adapters() fold it in? Where a family has one tensor for embeddings and output, one alone cannot change.
bool can_be_merged(const ModelSpec& spec, const AdapterSpec& adapter);
/// What llama.cpp cannot do with an adapter, or "".
std::string unknown_to_llama_cpp(const ModelSpec& spec, const AdapterSpec& adapter);

/// Adds the tensors of its spec's last adapter to a model: random `a`, as random_model() makes a matrix, and b = 0, so
/// that the model computes what it did before. Of embeddings a = 0 and b is random. Magnitudes are lengths of rows.
/// Where a map begins as the principal part of its weight, s b a is best_low_rank() of it, and the model computes what
/// it did but for rounding. Where that is 0, `a` is random and b = 0 as elsewhere.
void add_adapter_weights(Model& model, uint64_t seed);
/// One change of a weight, w + s b a.
struct AdapterFactors {
  std::vector<float> a, b;
  int64_t rank = 0;
};
/// What an adapter does to a weight. With a principal part to subtract the rank is twice that of the map.
AdapterFactors factors_of(const Model& model, const std::string& weight, size_t number);
/// Adds the norms of constant magnitudes, of the weights and the adapter as they are.
void add_norms(Model& model, size_t number);
/// Adds an adapter from a GGUF of llama.cpp's kind, of floats, multiplied by `scale`; 0 leaves
/// the model as it is, also with magnitudes. Throws Error{bad_input} naming
/// file and tensor where it is of another model: its architecture, a name or a shape.
void load_adapter(Model& model, const std::string& path, double scale = 1);
/// Applies all adapters to the weights in their order, in f64 and rounded once, and removes them. One adds s b a; one
/// with magnitudes then multiplies each row by m / |w + s b a|, with w of the model and its own change, as PEFT. A
/// tied model gets an output of its own where embeddings or output have an adapter. Throws Error{bad_input} naming a
/// weight that is not f32: load the model with LoadMode::trainable.
void merge_adapters(Model& model);
/// Writes adapter `number` as llama.cpp reads it, in f32, f16 or bf16. An f32 round trip is bit-exact. llama.cpp has no
/// magnitudes: with these the type is "dora", which it refuses. Principal parts are subtracted in it, as factors_of()
/// does, so that it belongs to the model as it is.
void save_adapter(const Model& model, size_t number, const std::string& path, DType stored = DType::f32);

}  // namespace toy

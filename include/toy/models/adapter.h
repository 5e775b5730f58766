// Low-rank adapters of a model (LoRA, Hu et al. 2021): making them, and files of llama.cpp's kind in and out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toy/models/model.h"

namespace toy {

/// What a new adapter is like.
struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32;                               ///< what the adapter adds is multiplied by alpha / rank
  bool rslora = false;                             ///< by alpha / sqrt(rank) instead (Kalajdzievski 2023)
  double dropout = 0;                              ///< part of an adapter's input that training zeroes
  std::vector<std::string> targets{"all-linear"};  ///< see lora_targets()
  bool dora = false;   ///< norms of rows are trained apart from their directions (DoRA, Liu et al. 2024)
  bool pissa = false;  ///< a and b begin as the principal part of the weight (PiSSA, Meng et al. 2024)
  double b_lr = 1;     ///< learning rate of b over that of a (LoRA+, Hayou et al. 2024)
};

/// The weights that an adapter may change, in the order of tensors_of(): linear maps, experts, the embedding of tokens
/// and the output. A model whose output is its embedding has "output.weight" last: each of the two uses of the table
/// can be changed.
std::vector<TensorSpec> adaptable_tensors(const ModelSpec& spec);
/// Those that these targets name. A target is `all-linear` (every linear map and every expert, but not the output), or
/// a pattern of names, in full ("blk.0.attn_q.weight"), without ".weight" or without the block ("attn_[qv]"); PEFT's
/// names for those of a Llama ("q_proj", "lm_head", "embed_tokens") work, too. "=RANK" or "=RANK:ALPHA" behind it are
/// what its weights get. Throws Error{bad_input} naming the nearest one for a target that no weight fits.
std::vector<TensorSpec> lora_targets(const ModelSpec& spec, const std::vector<std::string>& targets);
/// An adapter of these weights, each with the rank and alpha of the last target that fits it. Throws Error{bad_input}
/// naming the option, or the weight that a rank is too large for.
AdapterSpec lora_adapter(const ModelSpec& spec, const LoraOptions& options);

/// Adds the tensors of its spec's last adapter to a model: random `a`, as random_model() makes a matrix, and b = 0, so
/// that the model computes what it did before. Norms of rows begin as those of the weights.
void add_adapter_weights(Model& model, uint64_t seed);
/// What PiSSA takes from the weights and never changes: the same adapter, subtracted. A model with both in this order
/// is the base when training begins, but for rounding.
AdapterSpec principal_part(AdapterSpec adapter);
/// Adds the tensors of an adapter and of its principal_part(), which its spec has: b a is the part of the largest
/// singular values of each weight.
void add_principal_weights(Model& model, uint64_t seed);
/// Adds an adapter from a GGUF of llama.cpp's kind, of floats, multiplied by `scale`. Throws Error{bad_input} naming
/// file and tensor where it is of another model: its architecture, a name or a shape.
void load_adapter(Model& model, const std::string& path, double scale = 1);
/// For readers of other files: adds the tensors of an adapter, of no values yet. `path`: what an error names.
void add_loaded(Model& model, AdapterSpec adapter, const std::string& path);
/// Likewise, sets the norms of rows of the last adapter's map.
void set_norms(Model& model, const std::string& weight, std::span<const float> norms);
/// Replaces trained norms of rows by the factors that they amount to, for models that are only used from now on: norms
/// are then not computed in each call.
void fix_magnitudes(Model& model);
/// Adds what all adapters do to the weights, w + s b a, summed in f64 and rounded once, and removes the adapters. A
/// model whose output is its embedding gets an output of its own where an adapter changes one of the two.
/// Throws Error{bad_input} naming a weight that is not f32: load the model with LoadMode::trainable.
void merge_adapters(Model& model);
/// Writes adapter `number` as llama.cpp reads it, in f32, f16 or bf16. An f32 round trip is bit-exact. With norms of
/// rows ("NAME.lora_magnitude") only toy reads it.
void save_adapter(const Model& model, size_t number, const std::string& path, DType stored = DType::f32);
/// The same of all adapters of a model as one, of the sum of their ranks.
void save_adapters(const Model& model, const std::string& path, DType stored = DType::f32);

}  // namespace toy

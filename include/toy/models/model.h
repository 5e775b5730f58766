// A realized model: dimensions, weights in a device's storage, tokenizer; in and out of GGUF.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "toy/base/threads.h"
#include "toy/formats/gguf.h"
#include "toy/models/spec.h"
#include "toy/nn/weights.h"
#include "toy/runtime/session.h"
#include "toy/text/tokenizer.h"

namespace toy {

/// What load_model() and random_model() return, and training changes.
struct Model {
  ModelSpec spec;
  std::unique_ptr<ParamStore> params;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< may be absent
  std::vector<std::string> warnings = {};      ///< what to tell the user about the file it came from
  /// What its file says for others: license and authors, chat template, further special tokens. save_model() keeps it.
  std::map<std::string, gguf::Value, std::less<>> metadata = {};

  /// Weights of a graph that is being built for this model.
  Weights weights(Graph& graph) const;
};

/// The dimensions that a file's metadata states, with llama.cpp's defaults for absent keys. general.architecture names
/// a built-in family or one of `more`. Throws naming file and key.
ModelSpec spec_from_gguf(const gguf::File& file, const Families& more = {});
/// How the metadata of a file say that the vectors of a text become its embedding: "mean", "cls", "last", "rank", or
/// "".
std::string stated_pooling(const std::map<std::string, gguf::Value, std::less<>>& metadata);
/// What a user should know: metadata that are not honoured, weights that are converted, what llama.cpp does otherwise.
std::vector<std::string> warnings_of(const gguf::File& file, const ModelSpec& spec);

/// What the weights are loaded for.
enum class LoadMode {
  mapped,     ///< weights that the device can use as they lie in the file are not copied, and frozen
  trainable,  ///< every weight is an f32 copy that training may change
};
/// Opens a GGUF, or the newest of a run's folder. Throws naming a missing, misshapen or unknown tensor, and, before it
/// allocates, when memory will not suffice. `more`: as for spec_from_gguf().
Model load_model(const std::string& path, const Device& device, LoadMode mode = LoadMode::mapped,
                 const Families& more = {});

/// The same with the roles of `spec`, which is spec_from_gguf() of this file, perhaps with another name and context:
/// what training changes is an f32 copy, all else is mapped where the device can use it as it lies. Adapters of `spec`
/// are not in the file; see add_adapter().
Model load_model(const std::string& path, const Device& device, const ModelSpec& spec);
/// In which type load_model() with `spec` holds a tensor.
Weights::DTypeOf held_types(const gguf::File& file, const ModelSpec& spec);

/// The first values of a tensor; see random_model().
std::vector<float> initial_values(const TensorSpec& tensor, uint64_t seed, double init_scale, ThreadPool& pool);
/// Fresh weights: N(0, init_scale/sqrt(fan_in)) for matrices, N(0, 0.02) for embeddings and untied output, ones for
/// gains, zeros for biases; log U(0,16) for rates of decay, and for their biases what makes softplus of them
/// U(0.001,0.1) in the logarithm (Gu and Dao 2023, Yang et al. 2024). The numbers depend only on (seed, tensor name,
/// index).
Model random_model(const ModelSpec& spec, const Device& device, uint64_t seed, double init_scale = 1.0);

/// Sets the metadata that state a model's dimensions, and adds tensors that are no weights, such as factors of rope;
/// `spec` must stay until the file is written. `stored`: the type of most weights (f32, f16, bf16).
void write_dimensions(const ModelSpec& spec, gguf::Writer& writer, DType stored);

/// Writes weights, dimensions and tokenizer as llama.cpp reads them. Matrices are stored as `stored` (f32, f16, bf16),
/// norms and biases always as f32. An f32 round trip is bit-exact, but for TensorSpec::InFile.
void save_model(const Model& model, const std::string& path, DType stored = DType::f32);

}  // namespace toy

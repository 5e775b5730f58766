// A model family: how a ModelSpec is stated in GGUF metadata. The layers themselves are shared, and so is everything
// else about files: tensors, their types, memory, the tokenizer. examples/06_own_family adds one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/models/spec.h"

namespace toy {

/// One family.
struct Family {
  /// What its models have in common, whatever their dimensions. `architecture` names the family; the one layer is the
  /// pattern of all layers.
  ModelSpec defaults;
  /// Fills in what the metadata say; name, width, context, vocabulary, tied and the number of layers are there already.
  /// Throws naming file and key.
  std::function<void(const gguf::File&, ModelSpec&)> read;
  /// Metadata (and tensors that are no weights) beside those that all families share.
  std::function<void(gguf::Writer&, const ModelSpec&)> write;
  /// Throws for a model that its files cannot hold, naming the dimension. ModelSpec::validate() calls it. May be empty.
  std::function<void(const ModelSpec&)> check = {};
  /// Appends what a user should know about a file. May be empty.
  std::function<void(const gguf::File&, const ModelSpec&, std::vector<std::string>&)> warn = {};
  /// Tensors that a file may have beside tensors_of().
  std::vector<std::string> extra_tensors = {};
};

/// Those that are built in: llama, gpt2.
const std::vector<Family>& families();

/// A model of this family to fill in: its defaults, which refer to the family. Throws Error{bad_input} for a family
/// without a name, a layer, `read` or `write`.
ModelSpec spec_of(const std::shared_ptr<const Family>& family);

/// Throws naming layer and dimension where layers differ in what metadata hold once for all of them.
void require_like_layers(const ModelSpec& spec);

/// `key` of a family's metadata: "llama.context_length".
inline std::string family_key(const ModelSpec& spec, std::string_view key) {
  return spec.architecture + "." + std::string(key);
}

}  // namespace toy

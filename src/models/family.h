// A model family: how a ModelSpec is stated in GGUF metadata. The layers themselves are shared; everything else about
// files (tensors, their types, memory, the tokenizer) is the same for all and stands in gguf_model.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/models/spec.h"

namespace toy {

/// One family. families() lists them all.
struct Family {
  /// What its models have in common whatever their dimensions; `architecture` names it, the one layer is the pattern.
  ModelSpec defaults;
  /// Fills in what the metadata say; name, width, context, vocabulary, tied and the number of layers are there already.
  /// Throws naming file and key.
  std::function<void(const gguf::File&, ModelSpec&)> read;
  /// Metadata (and tensors that are no weights) beside those that all families share.
  std::function<void(gguf::Writer&, const ModelSpec&)> write;
  /// Throws for a model that its files cannot hold, naming the dimension.
  std::function<void(const ModelSpec&)> check;
  /// Appends what a user should know about a file.
  std::function<void(const gguf::File&, const ModelSpec&, std::vector<std::string>&)> warn;
  /// Tensors that a file may have beside tensors_of().
  std::vector<std::string> extra_tensors = {};
};

Family llama_family();
Family gpt2_family();

const std::vector<Family>& families();
/// Their names: "llama, gpt2".
std::string family_names();
/// nullptr if there is none of this name.
const Family* find_family(std::string_view architecture);
/// The family of a model. Throws naming the architecture when there is none.
const Family& family_of(const ModelSpec& spec);

/// Throws naming layer and dimension where layers differ in what metadata hold once for all of them.
void require_like_layers(const ModelSpec& spec);

/// The widest head that a model may have.
inline constexpr int64_t kMaxHeadWidth = 1024;

/// `key` of a family's metadata: "llama.context_length".
inline std::string family_key(const ModelSpec& spec, std::string_view key) {
  return spec.architecture + "." + std::string(key);
}

}  // namespace toy

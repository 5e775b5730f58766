// A model family: how a ModelSpec is stated in GGUF metadata. The layers themselves are shared, and so is everything
// else about files: tensors, their types, memory, the tokenizer. examples/06_own_family adds one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/models/metadata.h"
#include "toy/models/spec.h"

namespace toy {

/// One family.
struct Family {
  /// What its models have in common, whatever their dimensions. `architecture` names the family; its layers repeat as
  /// the pattern of all layers, usually one.
  ModelSpec defaults;
  /// Fills in what the metadata say; name, width, context, vocabulary, tied and the layers (repeated `defaults`) are
  /// there already. Throws naming file and key. A key that it does not ask for causes a warning.
  std::function<void(Metadata&, ModelSpec&)> read;
  /// Metadata (and tensors that are no weights) besides those that all families share.
  std::function<void(MetadataWriter&, const ModelSpec&)> write;
  /// What `read` and `write` handle, as the keys of docs/model-keys.md, besides n_heads, n_kv, d_head, d_ff, the
  /// epsilon of the norms and what all families share. A model that differs from `defaults` in anything else is
  /// refused: the file would not say so.
  std::vector<std::string_view> holds = {};
  bool holds_all = false;  ///< every key
  /// Throws for a model that its files cannot hold, naming the dimension. ModelSpec::validate() calls it. May be empty.
  std::function<void(const ModelSpec&)> check = {};
  /// What its tensors are called instead of the usual names, without ".weight" and ".bias", and what those of block i
  /// begin with, in front of "<i>.".
  std::vector<std::pair<std::string, std::string>> names = {};
  std::string blocks = "blk.";
  /// Names of tensors that a file of this model may have besides tensors_of(). May be empty.
  std::function<std::vector<std::string>(const ModelSpec&)> extra_tensors = {};
};

/// Those that are built in.
const std::vector<Family>& families();

/// A model of this family to fill in: its defaults, which refer to the family. Throws Error{bad_input} for a family
/// without a name, a layer, `read` or `write`.
ModelSpec spec_of(const std::shared_ptr<const Family>& family);

/// Throws naming layer and dimension where layers differ in one of these keys, which metadata hold once for all of
/// them.
void require_like_layers(const ModelSpec& spec,
                         const std::vector<std::string_view>& keys = {"n_heads", "n_kv", "d_head", "d_ff", "window"});

}  // namespace toy

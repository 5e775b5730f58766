// The tensors of a Hugging Face folder: one safetensors file, or several with an index.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hf/models.h"
#include "toy/formats/safetensors.h"

namespace toy::hf {

/// Mapped, and checked against the index. It remembers which tensors were asked for.
class Shards {
 public:
  /// Throws Error{bad_input} for a missing file, a tensor that is in two files, and an index that is not true.
  static Shards open(const std::string& folder, const HfModel& model);
  /// The tensors of one more file, whose names get `start` in front.
  void add(const std::string& path, const std::string& start);
  /// nullptr: there is no tensor of this name.
  const View* find(const std::string& name);
  /// The same for one of bytes.
  const safetensors::Bytes* find_bytes(const std::string& name);
  /// Throws naming the nearest one.
  const View& require(const std::string& name);
  /// Tensors that nobody asked for and that are no buffers.
  std::vector<std::string> left() const;
  std::vector<std::string> names() const;
  /// How many tensors of a multimodal model's other parts were left out.
  size_t of_other_parts() const { return of_other_parts_; }
  /// The same of layers that predict further tokens ("mtp.").
  size_t predicting() const { return predicting_; }

 private:
  void add(safetensors::File file, const HfModel& model);
  void leave_out(std::string_view name);

  std::string folder_, class_name_;
  std::vector<safetensors::File> files_;
  std::map<std::string, View, std::less<>> tensors_;
  std::map<std::string, safetensors::Bytes, std::less<>> bytes_;
  std::set<std::string, std::less<>> asked_;
  size_t of_other_parts_ = 0, predicting_ = 0;
};

/// A name as LlamaForCausalLM has it: of the text part of multimodal models, and of GPT-2 saved without its head. ""
/// for tensors of other parts and of layers that predict further tokens.
std::string plain_name(std::string_view name, const HfModel& model);

/// The files that model.safetensors.index.json names. It is foreign input: throws unless each is a name in the folder.
std::set<std::string> files_of_index(const Config& index);

}  // namespace toy::hf

// Models named by a file, the folder of a run, the id of a run, a folder from Hugging Face, or as `toy list` shows
// them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy {

/// Where runs are looked for by their ids and listed, by default.
inline const std::vector<std::string> kRunRoots{"."};

/// Finds what a name means. Programs derive from it to say what is found on the way.
class ModelFinder {
 public:
  virtual ~ModelFinder() = default;

  /// The folder of a run that is named by its path or its id (or the beginning of it) below this folder; "" if none is.
  /// Throws Error{bad_input} where several ids begin so.
  std::string run_folder(const std::string& what) const;
  /// The path of a model that `toy list` shows under this name, "" if there is none or if `what` is a file. Of a
  /// repository in safetensors that is its converted_folder(), unless `takes_folders`.
  std::string listed_model(const std::string& what, bool takes_folders = false) const;
  /// The GGUF file that `what` names. Throws Error{bad_input} saying what was searched, and for a folder without a
  /// model.
  std::string model_file(const std::string& what) const;
  /// The GGUF of a folder from Hugging Face, made in the user's cache when it is first asked for and again when the
  /// folder changes; nullopt for any other folder. Throws Error{bad_input} for an adapter of PEFT and an incomplete
  /// repository.
  std::optional<std::string> converted_folder(const std::string& folder) const;
  /// The file whose tokenizer `what` means, as model_file() finds it; "bytes", "spm:512" and what is unknown stay.
  std::string tokenizer_file(const std::string& what) const;
  /// The adapter that `what` names: a file, or in the folder of a run or checkpoint the newest. Throws Error{bad_input}
  /// for a folder without one.
  std::string adapter_file(const std::string& what) const;

 protected:
  /// A line for people, such as which file it is.
  virtual void tell([[maybe_unused]] const std::string& line) const {}
  /// Warnings of the file at `path`.
  virtual void warn([[maybe_unused]] const std::string& path,
                    [[maybe_unused]] const std::vector<std::string>& warnings) const {}
  /// Runs `work`, which takes time. nullopt: it was interrupted.
  virtual std::optional<hf::Converted> convert(
      const std::function<hf::Converted(const hf::ConvertOptions&)>& work) const {
    return work({});
  }

 private:
  std::string told(const std::string& file, const std::string& note) const;
};

/// An adapter of a model: the file or PEFT folder, its scale, and its name.
struct GivenAdapter {
  std::string path;
  double scale = 1;
  std::string name = {};  ///< by default that of the file or folder
};
/// Of "FILE[:SCALE]", or if `named` "[NAME=]FILE[:SCALE]".
GivenAdapter parse_adapter(const std::string& text, bool named, const ModelFinder& finder);
/// Adds them to a model, in their order. Throws Error{bad_input} for one that is of another model.
void apply_adapters(Model& model, const std::vector<GivenAdapter>& given);

/// Throws Error{bad_input} with the reason where the model of this file has no tokenizer; `way_out` ends the message.
void require_tokenizer(const Model& model, const std::string& path,
                       const char* way_out = "give a model with another tokenizer");

/// For a computation that has failed: throws Error{bad_input} naming the first tensor of the file that holds NaN or
/// infinity, if there is one. (Quantized tensors are checked when a model is loaded.)
void refuse_broken_weights(const std::string& path);

}  // namespace toy

// Models by any name: a file, the folder of a run, the id of a run, a model that `toy list` shows, or a folder from
// Hugging Face. The program's commands and load_model() of other languages find them here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "toy/hf/convert.h"

namespace toy {

/// The model that the run of this folder made an adapter of, as the run's options name it; nullopt where its log does
/// not say so.
std::optional<std::string> base_of_adapter(const std::string& folder);

/// Throws Error{bad_input} with what to do for a word that can be no name of a model here, such as an address of the
/// web.
void refuse_no_name(const std::string& what);
/// The folder of the Hugging Face model that this file is a part of, such as its config.json; "" for any other file.
std::string folder_of_part(const std::string& file);

/// Finds models, adapters and runs.
///
///     const Model model = load_model(ModelFinder().model("smollm2"), *device);
struct ModelFinder {
  std::vector<std::string> roots = {"."};  ///< below them runs are looked for by their ids
  /// Is told in a line without its end which file is used where the name does not say so, and what is converted.
  std::function<void(const std::string& line)> say = [](const std::string&) {};
  /// Does a conversion, which takes seconds a gigabyte: `work` with options of its own.
  std::function<void(const std::function<hf::Converted(const hf::ConvertOptions&)>& work)> convert =
      [](const auto& work) { work({}); };

  /// The GGUF file that `what` names. Throws Error{bad_input} saying what was searched, and for a folder without a
  /// model.
  std::string model(const std::string& what) const;
  /// The same for a run that is resumed in the folder `out`. Where `what` is that folder, the run began with its model
  /// and replaces it at its end, so that it is not a checkpoint of the run itself.
  std::string model_of_resumed(const std::string& what, const std::string& out) const;
  /// The adapter that `what` names: a file, or in the folder of a run or checkpoint the newest. Throws Error{bad_input}
  /// for a folder without one.
  std::string adapter(const std::string& what) const;
  /// The file whose tokenizer `what` means, as model() finds it; "bytes", "spm:512" and what is unknown stay.
  std::string tokenizer(const std::string& what) const;

  /// The folder of a run that is named by its path or its id (or the beginning of it); "" if none is. Throws
  /// Error{bad_input} where several ids begin so.
  std::string run(const std::string& what) const;
  /// The path of a model that `toy list` shows under this name, "" if there is none or if `what` is a file. Of a
  /// repository in safetensors it is that of its converted(), unless `takes_folders`.
  std::string listed(const std::string& what, bool takes_folders = false) const;
  /// The GGUF of a folder from Hugging Face, made in the user's cache when it is first asked for and again when the
  /// folder changes; nullopt for any other folder. Throws Error{bad_input} for an adapter of PEFT and an incomplete
  /// repository.
  std::optional<std::string> converted(const std::string& folder) const;
};

}  // namespace toy

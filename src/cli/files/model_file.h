// Models named by a file, the folder of a run, the id of a run, or as `toy list` shows them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "bind/find_model.h"
#include "toy/base/error.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::cli {

/// The positional `model` of a command.
CLI::Option* add_model_option(CLI::App& app, std::string& model);

/// What `work` converts, with a bar. Ctrl-C ends the program between two tensors.
std::optional<hf::Converted> convert_with_progress(hf::ConvertOptions options,
                                                   const std::function<hf::Converted(const hf::ConvertOptions&)>& work);

/// @{
/// As ModelFinder's. They say on stderr what they find.
std::string run_folder(const std::string& what);
std::string listed_model(const std::string& what, bool takes_folders = false);
std::optional<std::string> converted_folder(const std::string& folder);
std::string model_file(const std::string& what);
std::string tokenizer_file(const std::string& what);
/// @}

/// What a computation with the models of these files returns. Where it fails, broken weights are the reason to tell.
template <class Compute>
auto with_sound_weights(std::initializer_list<std::string> paths, const Compute& compute) {
  try {
    return compute();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::failure)
      for (const std::string& path : paths) refuse_broken_weights(path);
    throw;
  }
}

/// Adapters of a model: `--lora FILE[:SCALE]`.
struct AdapterOptions {
  std::vector<std::string> lora;
  /// `named`: `--lora [NAME=]FILE[:SCALE]`.
  void add(CLI::App& app, bool named = false);
  std::vector<GivenAdapter> given() const;
  void apply(Model& model) const { apply_adapters(model, given()); }

 private:
  bool named_ = false;
};

}  // namespace toy::cli

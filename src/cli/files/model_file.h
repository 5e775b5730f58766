// Models named by a file, the folder of a run, the id of a run, or as `toy list` shows them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "bind/adapters.h"
#include "toy/base/error.h"
#include "toy/find/find_model.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::cli {

/// Where runs are looked for by their ids and listed, by default.
inline const std::vector<std::string> kRunRoots{"."};
/// The positional `model` of a command.
CLI::Option* add_model_option(CLI::App& app, std::string& model);

/// What `work` converts, with a bar. Ctrl-C ends the program between two tensors.
std::optional<hf::Converted> convert_with_progress(hf::ConvertOptions options,
                                                   const std::function<hf::Converted(const hf::ConvertOptions&)>& work);

/// Finds models by any name; says on stderr what it uses, and shows a bar while it converts.
ModelFinder finder();
/// finder().model(what).
std::string model_file(const std::string& what);
/// The same. `after` is another argument: where that is a model and `what` is none, the error says to exchange them.
std::string model_file(const std::string& what, const std::string& after);
/// What people call the model of a file: "out/book/model.gguf" is "book".
std::string name_of_model_file(const std::string& file);

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

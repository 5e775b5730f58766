// How texts are chosen: the options of commands that generate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/usual_sampling.h"
#include "toy/models/model.h"

namespace toy::cli {

/// Those of SamplerOptions::fields() that command lines have, and --samplers with all others in brackets.
struct SamplingOptions {
  /// After read(): what was given, but for what needs a model: its tokenizer, and its own defaults.
  SamplerOptions sampler{.temperature = kUsualTemperature};
  void add(CLI::App& app);
  /// After parsing: takes over options whose values are texts. Throws Error{bad_input} naming the option.
  void read(const CLI::App& parser);
  /// Is it set in the brackets of --samplers?
  bool is_listed(const Option& option) const;
  /// Throws Error{bad_input} for options that do not go together; says on stderr which of those given change nothing.
  void check_together(const CLI::App& parser) const;
  /// The options for this model, with its own defaults where nothing was given. Throws Error{bad_input} for token ids
  /// outside its vocabulary.
  SamplerOptions of(const Model& model) const;
  /// What was not given, for people: "temperature 0.8, seed 481516"; "" where all was given or nothing is drawn.
  std::string chosen(const Model& model) const;

 private:
  std::string samplers_;
  std::vector<std::string> biases_, breakers_{"\n", ":", "\"", "*"};
  std::vector<std::string_view> listed_, given_;
};

}  // namespace toy::cli

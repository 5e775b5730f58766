// How texts are chosen: the options of commands that generate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/sampler.h"
#include "toy/models/model.h"

namespace toy::cli {

/// Those of SamplerOptions::fields() that command lines have, and --samplers with all others in brackets.
struct SamplingOptions {
  SamplerOptions sampler;  ///< before add(): the defaults; after read(): what was given, but for what needs a tokenizer
  void add(CLI::App& app);
  /// After parsing: takes over options whose values are texts. Throws Error{bad_input} naming the option.
  void read(const CLI::App& parser);
  /// Is it set in the brackets of --samplers?
  bool is_listed(const Option& option) const;
  /// Throws Error{bad_input} for options that do not go together; says on stderr which of those given change nothing.
  void check_together(const CLI::App& parser) const;
  /// The options for this model. Throws Error{bad_input} for token ids outside its vocabulary.
  SamplerOptions of(const Model& model) const;

 private:
  std::string samplers_;
  std::vector<std::string> biases_, breakers_{"\n", ":", "\"", "*"};
  std::vector<std::string_view> listed_;
};

}  // namespace toy::cli

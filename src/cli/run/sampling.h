// How texts are chosen: the options of commands that generate.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "toy/decode/sampler.h"
#include "toy/models/model.h"

namespace toy::cli {

/// --temperature to --mirostat-lr, with llama.cpp's names.
struct SamplingOptions {
  SamplerOptions sampler;  ///< before add(): the defaults; after read(): what was given, but for what needs a tokenizer
  void add(CLI::App& app);
  /// After parsing: takes over options whose values are texts. Throws Error{bad_input} naming the option.
  void read();
  /// Throws Error{bad_input} for options that do not go together; says on stderr which of those given change nothing.
  void check_together(const CLI::App& parser) const;
  /// The options for this model. Throws Error{bad_input} for token ids outside its vocabulary.
  SamplerOptions of(const Model& model) const;

 private:
  void add_more(CLI::App& app);

  std::string samplers_;
  std::vector<std::string> biases_, breakers_{"\n", ":", "\"", "*"};
  int mirostat_ = 0;
};

}  // namespace toy::cli

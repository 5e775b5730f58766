// --draft of commands that generate: who proposes tokens in speculative decoding.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/options.h"
#include "toy/decode/decoder.h"
#include "toy/decode/speculation.h"

namespace toy::cli {

/// What --draft names, for a scheduler that it outlives.
struct Draft {
  std::unique_ptr<Model> model;  ///< nullptr: no model proposes
  std::unique_ptr<Decoder> decoder;
  SpeculationOptions options;

  /// Does anyone propose?
  bool proposes() const { return options.ngrams || model != nullptr; }
  /// Rows of a call in which each of these texts has as many proposals as may be.
  int64_t rows(int64_t sequences) const { return proposes() ? sequences * (options.most + 1) : sequences; }
  /// Makes its decoder for texts of `texts`. `generated`: as for DecodingOptions::repacks().
  void follow(Device& device, Decoder& texts, const DecodingOptions& decoding, int64_t generated);
};

/// --draft and --draft-max.
struct DraftOptions {
  std::string draft;
  int most = SpeculationOptions().most;
  void add(CLI::App& app);
  /// Loads what proposes tokens of `model`. Throws Error{bad_input} where its tokens are others. A model that cannot
  /// pay is not loaded, which stderr says.
  Draft load(Device& device, const Model& model) const;
};

}  // namespace toy::cli

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
};

/// --draft and --draft-max.
struct DraftOptions {
  std::string draft;
  int most = SpeculationOptions().most;
  void add(CLI::App& app);
  /// Rows of a call in which each of these texts has as many proposals as may be.
  int64_t rows(int64_t sequences) const { return draft.empty() ? sequences : sequences * (most + 1); }
  /// Loads it for texts of `decoder`, which computes `model`. Throws Error{bad_input} where its tokens are others.
  /// `repack`: as DecoderOptions'.
  Draft make(Device& device, const Model& model, Decoder& decoder, const DecodingOptions& decoding,
             int64_t generated) const;
};

}  // namespace toy::cli

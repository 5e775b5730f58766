// Pairs of texts that belong together, and texts that do not: what embeddings learn from and are judged by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "toy/base/options.h"
#include "toy/data/text_files.h"
#include "toy/data/text_rows.h"

namespace toy {

/// What is searched with, what should be found, and a text that is like it and should not.
struct TextPair {
  std::string anchor, positive;
  std::optional<std::string> negative;
};

/// Reads rows {"anchor", "positive", "negative"} of JSON Lines, lists and tables; docs/embeddings.md has the other
/// names of these fields. Throws Error{bad_input} with file, line and reason, also where there is no row.
std::vector<TextPair> read_pairs(const std::vector<TextFile>& files, const TextRowReading& reading);

/// What a training puts before texts, and how much of them it takes.
struct PairOptions {
  std::string anchor_prefix, passage_prefix;
  int64_t text_tokens = 0;  ///< longer texts are cut; 0: as the model's file says
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Pairs";
    f(text_option("anchor_prefix", "Put this before each anchor, such as \"query: \"", k, "TEXT"), o.anchor_prefix);
    f(text_option("passage_prefix", "Put this before each positive and negative", k, "TEXT"), o.passage_prefix);
    f({"text_tokens", "Tokens per text, longer ones are cut; 0 takes what the model's file says", at_least(0), k},
      o.text_tokens);
  }
};

}  // namespace toy

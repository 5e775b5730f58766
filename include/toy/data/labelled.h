// Texts and their classes: what classifiers of texts learn from and are judged by.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toy/base/options.h"
#include "toy/data/text_files.h"
#include "toy/data/text_rows.h"

namespace toy {

/// A text and the name of its class.
struct LabelledText {
  std::string text, label;
  std::string where = {};  ///< its row, for messages: "rows.jsonl:3"
};

/// Reads rows {"text", "label"} of JSON Lines, lists and tables; docs/classifiers.md has the other names of these
/// fields. A label is a text, a whole number, or true or false. Throws Error{bad_input} with file, line and reason,
/// also where there is no row.
std::vector<LabelledText> read_labelled(const std::vector<TextFile>& files, const TextRowReading& reading);
/// Their classes, each once: in the order of numbers where all are whole numbers, else of bytes.
std::vector<std::string> classes_of(const std::vector<LabelledText>& texts);

/// The first ten of them for a message: "bad, good", or "a, b, ...".
std::string listed_classes(const std::vector<std::string>& classes);

/// What a training does with them.
struct LabelOptions {
  int64_t text_tokens = 0;     ///< longer texts are cut; 0: as the model's file says
  double label_smoothing = 0;  ///< of a text's target, the part that all classes share
  /// Those that the model tells already, in their order, which stays where the data have no others.
  std::vector<std::string> classes = {};
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Classes";
    f({"text_tokens", "Tokens per text, longer ones are cut; 0 takes what the model's file says", at_least(0), k},
      o.text_tokens);
    f({"label_smoothing", "Part of the target that all classes share", from_to_below(0, 1), k}, o.label_smoothing);
  }
};

}  // namespace toy

// Names of control tokens in what people wrote: marked before a template sees them, found again in what it writes.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy::dialog {

/// A text whose marks are taken out.
struct Unmarked {
  std::string text;
  std::vector<size_t> letters;  ///< EncodeOptions::letters of it
  /// Where marks ended in the marked text, and the bytes of all up to there.
  std::vector<std::pair<size_t, size_t>> marks;

  /// Where an offset of the marked text is in this one.
  size_t place(size_t marked_offset) const;
};

/// Marks the names of control tokens in texts: a private character follows the first character of each. A template
/// carries it along, and does not read it.
class LetterMarks {
 public:
  /// `input`: what the marks go into, whose private characters are not used. The tokenizer must outlive it.
  LetterMarks(const Tokenizer& tokenizer, std::span<const nlohmann::ordered_json* const> input);
  /// Marks the texts of a value, also keys. `allowed`: names that are the tokens they say.
  void mark(nlohmann::ordered_json& value, std::span<const std::string_view> allowed = {});
  /// Takes the marks out again.
  Unmarked unmarked(const std::string& rendered) const;
  /// A private character that stands in no text.
  const std::string& unused() const { return unused_; }

 private:
  std::string marked(const std::string& text, std::span<const std::string_view> allowed);

  const Tokenizer& tokenizer_;
  std::string mark_, escaped_;  // as it is, and as JSON in ASCII has it
  std::string unused_;
  bool any_ = false;
};

}  // namespace toy::dialog

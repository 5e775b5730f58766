// Generated tokens as text that can be shown at once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy {

/// Cuts a stream of bytes before the first of several stop strings. What may still become one is held back. The stop
/// string that is complete first counts, or the longer of two that end at the same byte. The result does not depend on
/// how the bytes are split.
class StopFilter {
 public:
  /// Throws Error{bad_input} for an empty stop string.
  explicit StopFilter(std::vector<std::string> stops = {});
  /// Bytes that are certainly before any stop string. Nothing more comes once it has stopped.
  std::string push(std::string_view bytes);
  /// What was held back when the stream ends without a stop string.
  std::string finish();
  bool stopped() const { return !found_.empty(); }
  /// The stop string that has ended it, or "".
  const std::string& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_, found_;
};

/// The text of generated tokens: begins as the prompt ends (where a tokenizer puts a space in front of a text, the
/// first token of a text loses it), never ends inside a character, and ends before a stop string. Tokens that
/// end a text have none.
class TextStream {
 public:
  /// `tokenizer` must outlive the stream; `prompt` decides how the text begins; `stops` as for StopFilter. `named`:
  /// control tokens whose names are text (Tokenizer::written()).
  TextStream(const Tokenizer& tokenizer, std::span<const int32_t> prompt, std::vector<std::string> stops = {},
             std::vector<int32_t> named = {});
  /// Text that is ready to be shown after this token.
  std::string push(int32_t id);
  /// The remainder at the end: held back characters, unless a stop string has cut them off.
  std::string finish();
  bool stopped() const { return stop_.stopped(); }
  /// The stop string that has ended it, or "".
  const std::string& stop() const { return stop_.found(); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<int32_t> ends_, named_;
  bool begun_;
  StopFilter stop_;
  Utf8Stream characters_;
};

}  // namespace toy

// What a model writes, in parts: text for the reader, thoughts, and calls of functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace toy {
struct GeneratedToken;
}

namespace toy::dialog {

/// A function that the model calls.
struct ToolCall {
  std::string id, name;
  std::string arguments;  ///< JSON, as the model wrote it
};

/// What a part of the text adds to a call. The first part of a call has its id and name, perhaps with the beginning of
/// the arguments; the others have arguments alone.
struct ToolCallPart {
  size_t index = 0;  ///< of the call, in its text
  ToolCall added;
};

/// What a token adds to a text, or what was held back until the end.
struct Piece {
  std::string text = {};                  ///< for the reader
  std::string thought = {};               ///< what the model thinks before its answer
  std::vector<ToolCallPart> calls = {};   ///< instead of text
  const GeneratedToken* token = nullptr;  ///< that wrote them, where the caller sets it

  /// Adds what follows, but its token.
  void append(const Piece& more) {
    text += more.text, thought += more.thought;
    calls.insert(calls.end(), more.calls.begin(), more.calls.end());
  }
};

}  // namespace toy::dialog

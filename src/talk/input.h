// What the user writes: lines that become messages, and commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toy::talk {

/// Lines to a message: a backslash at the end of a line continues it on the next; a line that begins with """ begins a
/// text of several lines, which ends with """ at the end of a line.
class MessageLines {
 public:
  /// The message that is complete with this line, which has no line break.
  std::optional<std::string> add(std::string_view line);
  /// Has a message begun that is not complete?
  bool pending() const { return quoted_ || continued_; }
  /// What there is of it when no more lines come, or when it is discarded.
  std::string take();

 private:
  std::string text_;
  bool quoted_ = false, continued_ = false;
};

/// A message "/name rest" as its parts.
struct CommandLine {
  std::string name, rest;  ///< `rest` without blanks at its ends
};
/// nullopt: it is a message for the model. "//text" is the message "/text", which plain_message() returns.
std::optional<CommandLine> parse_command(std::string_view message);
std::string plain_message(const std::string& message);

/// Without blanks and line breaks at its ends.
std::string trimmed(std::string_view text);

}  // namespace toy::talk

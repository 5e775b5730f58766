// A chat on a terminal.
#pragma once

#include <memory>
#include <string>

#include "talk/session.h"

namespace toy::talk {

/// What the terminal can show.
struct Look {
  bool color = false, unicode = false;
};

/// Edits lines with libedit, with a history, and shows answers as Markdown. One at a time: it sets the locale of
/// characters and the handler of SIGINT.
class TerminalScreen : public Screen {
 public:
  /// `history`: a path, or "" for none.
  TerminalScreen(const Look& look, const std::string& history);
  ~TerminalScreen() override;
  bool interactive() const override { return true; }
  LineRead read(const std::string& mark, const std::string& old) override;
  void remember(const std::string& message) override;
  void begin_reply() override;
  void show(const ReplyPart& part) override;
  void end_reply(const Reply* reply, bool stats) override;
  bool interrupted() override;
  void print(const std::string& text) override;
  void note(const std::string& text) override;
  bool confirm(const std::string& question) override;

 private:
  struct Editor;
  LineRead read_line(const std::string& prompt, const std::string& old);

  Look look_;
  std::unique_ptr<Editor> editor_;
};

/// What is said of an answer after it: why it stopped, if it did, and with `stats` its numbers: "[12 tokens, 34.5
/// tokens/s, 5 of 40 prompt tokens computed]". "": nothing.
std::string summary(const Reply& reply, bool stats);

}  // namespace toy::talk

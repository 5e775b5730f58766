// A chat through pipes: one line in is one message, answers are text as it is.
#pragma once

#include "talk/session.h"

namespace toy::talk {

/// Reads stdin, writes answers to stdout and notes to stderr.
class PlainScreen : public Screen {
 public:
  bool interactive() const override { return false; }
  LineRead read(const std::string& mark, const std::string& old) override;
  void remember(const std::string&) override {}
  void show(const ReplyPart& part) override;
  void end_reply(const Reply* reply, bool stats) override;
  void print(const std::string& text) override;
  void note(const std::string& text) override;
  bool confirm(const std::string&) override { return false; }
  void begin_reply() override {}
  bool interrupted() override;
};

}  // namespace toy::talk

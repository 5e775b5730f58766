// A screen for tests.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "talk/session.h"
#include "talk/tools.h"

namespace toy::talk {

/// Types lines, and writes down what is shown.
struct FakeScreen : Screen {
  std::deque<LineRead> lines;
  bool a_user = true, yes = false;
  std::string shown, notes, edited, marks;
  std::vector<std::string> remembered;
  int open = 0;  // answers that have begun and not ended

  FakeScreen(std::initializer_list<std::string> list) {
    for (const std::string& l : list) lines.push_back({LineRead::text, l});
  }
  bool interactive() const override { return a_user; }
  LineRead read(const std::string& mark, const std::string& old) override {
    marks += mark + "|";
    if (lines.empty()) return {LineRead::end, {}};
    LineRead next = lines.front();
    lines.pop_front();
    if (!old.empty()) edited = old;
    if (!old.empty() && next.kind == LineRead::text) next.line = old + next.line;
    return next;
  }
  void remember(const std::string& message) override { remembered.push_back(message); }
  void begin_reply() override { ++open; }
  void show(const ReplyPart& part) override { shown += part.text; }
  bool interrupted() override { return false; }
  void end_reply(const Reply* reply, bool stats) override {
    --open;
    if (stats) shown += "(numbers)";
    if (reply)
      for (const std::string& call : shown_calls(reply->message)) shown += call;
    shown += "|";
  }
  void print(const std::string& text) override { shown += text; }
  void note(const std::string& text) override { notes += text + "\n"; }
  bool confirm(const std::string& question) override {
    notes += question + "\n";
    return yes;
  }
};

}  // namespace toy::talk

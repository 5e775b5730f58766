// A chat: messages and commands come in, answers go out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "talk/conversation.h"
#include "talk/input.h"
#include "talk/replier.h"
#include "talk/tool_command.h"

namespace toy::talk {

/// What a user did at the prompt.
struct LineRead {
  enum Kind { text, interrupted, end } kind = text;
  std::string line;  ///< without a line break; of an interrupted line, what stood there
};

/// Where a chat takes place: a terminal, pipes, or a test.
class Screen {
 public:
  virtual ~Screen() = default;
  /// Is there a user who sees messages and can try again? Else an error ends the chat.
  virtual bool interactive() const = 0;
  /// Reads a line. `mark`: what stands in front of it; `old`: what stands there to be edited.
  virtual LineRead read(const std::string& mark, const std::string& old) = 0;
  /// A message or command that the user may want back.
  virtual void remember(const std::string& message) = 0;
  /// An answer begins; interrupted() tells whether the user wants no more of it.
  virtual void begin_reply() = 0;
  virtual void show(const ReplyPart& part) = 0;
  virtual bool interrupted() = 0;
  /// The calls of the answer are shown, and with `stats` its numbers. nullptr: there is none, and an error follows.
  virtual void end_reply(const Reply* reply, bool stats = false) = 0;
  /// Text that a command prints.
  virtual void print(const std::string& text) = 0;
  /// Something to know, or what went wrong.
  virtual void note(const std::string& text) = 0;
  /// A question that is answered with yes or no.
  virtual bool confirm(const std::string& question) = 0;
};

/// Settings of answers, which /set changes.
struct Settings {
  std::function<ReplySettings()> get;
  /// Throws Error{bad_input} for an unknown name, with the nearest, and for a value out of range.
  std::function<void(const std::string& name, const std::string& value)> set;
  std::function<std::string()> list;  ///< a line for each
};

class Session {
 public:
  /// Screen, replier and settings must outlive it.
  Session(Screen& screen, Replier& replier, const Settings& settings, Conversation conversation,
          ToolCommand tool_command = {});
  /// Until the end of the input, or /quit. Throws what goes wrong where nobody can try again.
  void run();
  const Conversation& conversation() const { return conversation_; }
  /// Names of the commands, without the slash.
  static std::vector<std::string> command_names();

 private:
  struct Known;  // a command
  static const std::vector<Known>& commands();

  LineRead read_lines(const std::string& mark, const std::string& old = {});
  std::optional<std::string> read_message(const std::string& old = {});
  void handle(const std::string& message);
  void run_command(const CommandLine& command);
  void say(const std::string& text);
  void answer();
  void reply();
  void make_room(const DoesNotFit& e);
  void add(const Reply& reply);
  bool answer_calls();
  std::optional<std::string> result_of(const ordered_json& call);
  void require_turn() const;

  void help(const CommandLine& command);
  void system(const CommandLine& command);
  void tools(const CommandLine& command);
  void set(const CommandLine& command);
  void regenerate(const CommandLine& command);
  void edit(const CommandLine& command);
  void undo(const CommandLine& command);
  void drop(const CommandLine& command);
  void save(const CommandLine& command);
  void load(const CommandLine& command);
  void stats(const CommandLine& command);
  void clear(const CommandLine& command);
  void quit(const CommandLine& command);

  Screen& screen_;
  Replier& replier_;
  const Settings& settings_;
  Conversation conversation_;
  const ToolCommand tool_command_;
  std::string file_;    // where it was saved or loaded last
  uint64_t again_ = 0;  // answers to the latest message that were not liked
  std::string unsent_;  // a message that did not fit, to be edited
  bool quitting_ = false, interrupted_ = false, stats_ = false;
};

}  // namespace toy::talk

#include "talk/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/models/spec.h"

namespace toy::talk {

struct Session::Known {
  const char *name, *operands, *help;
  void (Session::*run)(const CommandLine&);
};

const std::vector<Session::Known>& Session::commands() {
  static const std::vector<Known> all{
      {"help", "", "Show this list", &Session::help},
      {"system", "TEXT", "Set the system message; without a text remove it", &Session::system},
      {"set", "NAME VALUE", "Change an option, such as temperature 0.7; alone, list them", &Session::set},
      {"regenerate", "", "Answer the last message again, with the next seed", &Session::regenerate},
      {"edit", "TEXT", "Replace your last message; without a text, edit it", &Session::edit},
      {"undo", "", "Remove your last message and its answer", &Session::undo},
      {"drop", "N", "Remove the N oldest messages and their answers", &Session::drop},
      {"save", "FILE", "Write the conversation as JSON, for toy train --data", &Session::save},
      {"load", "FILE", "Continue a saved conversation", &Session::load},
      {"clear", "", "Forget the conversation; the system message stays", &Session::clear},
      {"quit", "", "Leave; so does Ctrl-D", &Session::quit},
  };
  return all;
}

Session::Session(Screen& screen, Replier& replier, const Settings& settings, Conversation conversation)
    : screen_(screen), replier_(replier), settings_(settings), conversation_(std::move(conversation)) {}

void Session::run() {
  while (!quitting_) {
    const std::optional<std::string> message = read_message();
    if (!message) return;
    try {
      handle(*message);
    } catch (const Error& e) {
      if (!screen_.interactive()) throw;
      screen_.note(e.what());
    }
  }
}

// nullopt: the user leaves.
std::optional<std::string> Session::read_message(const std::string& old) {
  MessageLines lines;
  std::string first = old;
  while (true) {
    const LineRead read = screen_.read(lines.pending(), std::exchange(first, {}));
    if (read.kind == LineRead::interrupted) {
      const bool nothing = read.line.empty() && !lines.pending();
      if (nothing && std::exchange(interrupted_, true)) return std::nullopt;
      lines.take();
      if (nothing) screen_.note("Ctrl-C again or Ctrl-D leaves");
      if (!old.empty()) return "";
      continue;
    }
    interrupted_ = false;
    if (read.kind == LineRead::end) return lines.pending() ? std::optional(lines.take()) : std::nullopt;
    if (std::optional<std::string> message = lines.add(read.line)) {
      if (!trimmed(*message).empty()) screen_.remember(*message);
      return message;
    }
  }
}

void Session::handle(const std::string& message) {
  if (trimmed(message).empty()) return;
  if (const auto command = parse_command(message)) return run_command(*command);
  say(plain_message(message));
}

void Session::run_command(const CommandLine& command) {
  std::vector<std::string> names;
  for (const Known& known : commands()) {
    if (known.name == command.name) {
      check(*known.operands != 0 || command.rest.empty(), "/{} takes nothing, but is followed by '{}'", known.name,
            one_line(command.rest));
      return (this->*known.run)(command);
    }
    names.push_back(known.name);
  }
  const auto begun = std::find_if(names.begin(), names.end(), [&](const std::string& n) {
    return !command.name.empty() && n.starts_with(command.name);
  });
  const std::string near = begun != names.end() ? *begun : nearest(command.name, names);
  fail("unknown command '/{}'; {}; a message that begins with / is written //", one_line(command.name),
       near.empty() ? "/help lists all" : fmt::format("did you mean '/{}'?", near));
}

void Session::say(const std::string& text) {
  conversation_.add_user(text);
  again_ = 0;
  answer();
}

// Where this throws, the message stays, and waits.
void Session::answer() {
  screen_.begin_reply();
  try {
    const Reply reply = replier_.reply(
        conversation_.messages(), settings_.get(), again_, [&](const ReplyPart& p) { screen_.show(p); },
        [&] { return screen_.interrupted(); });
    droppable_ = 0;
    if (reply.tokens > 0) conversation_.add(reply.message);
    screen_.end_reply(&reply);
  } catch (const DoesNotFit& e) {
    screen_.end_reply(nullptr);
    droppable_ = e.oldest_turns;
    fail("{}; {}", e.what(),
         droppable_ > 0
             ? fmt::format("/drop removes the {} oldest messages and answers again, /undo your last one", droppable_)
             : "/undo removes your last message; --ctx gives a larger context");
  } catch (...) {
    screen_.end_reply(nullptr);
    throw;
  }
}

void Session::require_turn() const { check(conversation_.turns() > 0, "there is no message yet; write one"); }

void Session::help(const CommandLine&) {
  std::string text;
  for (const Known& known : commands())
    text += fmt::format("{:<17} {}\n", fmt::format("/{} {}", known.name, known.operands), known.help);
  screen_.print(
      text +
      "\nA line that ends with \\ continues on the next one; \"\"\" begins and ends a text of several lines.\n"
      "Ctrl-C stops an answer and keeps what was written.\n");
}

void Session::system(const CommandLine& command) { conversation_.set_system(command.rest); }

void Session::set(const CommandLine& command) {
  if (command.rest.empty()) return screen_.print(settings_.list());
  const size_t end = std::min(command.rest.find_first_of(" \t="), command.rest.size());
  const std::string name = command.rest.substr(0, end);
  check(end < command.rest.size(), "/set {0} needs a value; write /set {0} VALUE", one_line(name));
  settings_.set(name, trimmed(command.rest.substr(end + 1)));
}

void Session::regenerate(const CommandLine&) {
  require_turn();
  if (!conversation_.waits()) {
    conversation_.drop_answer();
    ++again_;
  }
  answer();
}

void Session::edit(const CommandLine& command) {
  require_turn();
  std::string text = command.rest;
  if (text.empty()) {
    check(screen_.interactive(), "/edit needs a text; write /edit TEXT");
    const std::optional<std::string> edited = read_message(*conversation_.last_user());
    if (!edited || trimmed(*edited).empty()) return screen_.note("nothing was changed");
    text = *edited;
  }
  conversation_.undo();
  say(text);
}

void Session::undo(const CommandLine&) {
  require_turn();
  conversation_.undo();
  again_ = 0;
  const std::optional<std::string> last = conversation_.last_user();
  screen_.note(last ? fmt::format("the last message is now: {}", first_columns(one_line(*last), 60))
                    : "the conversation is empty");
}

void Session::drop(const CommandLine& command) {
  require_turn();
  size_t count = std::max<size_t>(droppable_, 1);
  if (!command.rest.empty()) {
    const std::string& n = command.rest;
    check(n.size() < 10 && std::all_of(n.begin(), n.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
              std::stoul(n) > 0,
          "/drop is followed by '{}'; use a number of messages", one_line(n));
    count = std::stoul(n);
  }
  check(count < conversation_.turns() || !conversation_.waits(),
        "/drop {} would remove your last message; /undo does that", count);
  conversation_.drop_oldest(count);
  if (conversation_.waits()) answer();
}

void Session::save(const CommandLine& command) {
  const std::string file = command.rest.empty() ? file_ : command.rest;
  check(!file.empty(), "/save needs the name of a file; write /save FILE");
  check(!conversation_.messages().empty(), "there is nothing to save yet; write a message");
  if (file != file_ && is_taken(file)) {
    load_conversation(file);  // throws where it is none
    const std::string taken = fmt::format("{} holds another conversation", one_line(file));
    check(screen_.interactive(), "{}; use another name, or remove it", taken);
    if (!screen_.confirm(taken + "; replace it?")) return;
  }
  save_conversation(file, conversation_);
  file_ = file;
  screen_.note(fmt::format("saved to {}", one_line(file)));
}

void Session::load(const CommandLine& command) {
  check(!command.rest.empty(), "/load needs the name of a file; write /load FILE");
  conversation_ = load_conversation(command.rest);
  file_ = command.rest;
  again_ = 0;
  screen_.note(fmt::format("{} messages loaded", conversation_.messages().size()));
}

void Session::clear(const CommandLine&) {
  conversation_.clear();
  again_ = 0;
  file_.clear();
}

void Session::quit(const CommandLine&) { quitting_ = true; }

}  // namespace toy::talk

#include "talk/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "talk/tools.h"
#include "toy/base/error.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy::talk {
namespace {

constexpr size_t kMostRounds = 16;  // of calls in an answer

// What other programs call our commands.
constexpr std::pair<std::string_view, std::string_view> kNamesOfOthers[] = {
    {"bye", "quit"}, {"exit", "quit"}, {"q", "quit"}, {"new", "clear"}, {"reset", "clear"}};

// Commands of other programs without a counterpart, and what to do.
constexpr std::pair<std::string_view, std::string_view> kNeedless[] = {
    {"model", "a chat has one model; /quit leaves, and toy chat MODEL begins with another"},
    {"models", "a chat has one model; /quit leaves, and toy chat MODEL begins with another"},
    {"show", "toy describe MODEL shows the model"},
    {"image", "toy chat reads no pictures"},
    {"temperature", "write /set temperature VALUE"},
    {"temp", "write /set temperature VALUE"},
    {"seed", "write /set seed VALUE"}};

}  // namespace

struct Session::Known {
  const char *name, *operands, *help;
  void (Session::*run)(const CommandLine&);
};

const std::vector<Session::Known>& Session::commands() {
  static const std::vector<Known> all{
      {"help", "", "Show this list", &Session::help},
      {"system", "TEXT", "Set the system message; without a text remove it", &Session::system},
      {"tools", "FILE", "Let the model call the tools of a JSON file; off: none; alone, list them", &Session::tools},
      {"set", "NAME VALUE", "Change an option, such as temperature 0.7; alone, list them", &Session::set},
      {"regenerate", "", "Answer the last message again, with the next seed", &Session::regenerate},
      {"edit", "TEXT", "Replace your last message; without a text, edit it", &Session::edit},
      {"undo", "", "Remove your last message and its answer", &Session::undo},
      {"drop", "N", "Remove the N oldest messages and their answers", &Session::drop},
      {"save", "FILE", "Write the conversation as JSON, for toy train --data", &Session::save},
      {"load", "FILE", "Continue a saved conversation", &Session::load},
      {"stats", "", "Show tokens and speed after each answer; again, hide them", &Session::stats},
      {"clear", "", "Forget the conversation; the system message stays", &Session::clear},
      {"quit", "", "Leave; so does Ctrl-D", &Session::quit},
  };
  return all;
}

std::vector<std::string> Session::command_names() {
  std::vector<std::string> names;
  for (const Known& known : commands()) names.emplace_back(known.name);
  return names;
}

Session::Session(Screen& screen, Replier& replier, const Settings& settings, Conversation conversation,
                 ToolCommand tool_command)
    : screen_(screen),
      replier_(replier),
      settings_(settings),
      conversation_(std::move(conversation)),
      tool_command_(std::move(tool_command)) {}

void Session::run() {
  for (bool any = false; !quitting_; any = true) {
    const std::optional<std::string> message = read_message(std::exchange(unsent_, {}));
    check(message || any || screen_.interactive(),
          "standard input holds no message; give one after the model: toy chat MODEL \"TEXT\"");
    if (!message) return;
    try {
      handle(*message);
    } catch (const Error& e) {
      if (!screen_.interactive()) throw;
      screen_.note(e.what());
    }
  }
}

// A text of one line or several. Of what was interrupted, `line` is empty where nothing stood there.
LineRead Session::read_lines(const std::string& mark, const std::string& old) {
  MessageLines lines;
  std::string first = old;
  while (true) {
    LineRead read = screen_.read(lines.pending() ? "." : mark, std::exchange(first, {}));
    if (read.kind == LineRead::interrupted) {
      if (lines.pending()) read.line = lines.take() + "\n" + read.line;
      return read;
    }
    interrupted_ = false;
    if (read.kind == LineRead::end) return lines.pending() ? LineRead{LineRead::text, lines.take()} : read;
    const bool begins = !lines.pending();
    if (std::optional<std::string> text = lines.add(read.line)) return {LineRead::text, *std::move(text)};
    if (begins && screen_.interactive() && read.line.starts_with("\"\"\""))
      screen_.note("\"\"\" at the end of a line ends the text");
  }
}

// nullopt: the user leaves.
std::optional<std::string> Session::read_message(const std::string& old) {
  while (true) {
    const LineRead read = read_lines(">", old);
    if (read.kind == LineRead::end) return std::nullopt;
    if (read.kind == LineRead::text) {
      if (!trimmed(read.line).empty()) screen_.remember(read.line);
      return read.line;
    }
    if (read.line.empty() && std::exchange(interrupted_, true)) return std::nullopt;
    if (read.line.empty()) screen_.note("Ctrl-C again or Ctrl-D leaves");
    if (!old.empty()) return "";  // what was to be edited is discarded
  }
}

void Session::handle(const std::string& message) {
  if (trimmed(message).empty()) return;
  if (const auto command = parse_command(message)) return run_command(*command);
  for (const std::string_view word : {"exit", "quit", "help"})
    if (screen_.interactive() && trimmed(message) == word)
      screen_.note(fmt::format("/{} is the command; this is sent as a message", word == "exit" ? "quit" : word));
  say(plain_message(message));
}

void Session::run_command(const CommandLine& command) {
  std::string_view name = command.name;
  for (const auto& [theirs, ours] : kNamesOfOthers)
    if (theirs == name) name = ours;
  for (const Known& known : commands()) {
    if (known.name == name) {
      check(*known.operands != 0 || command.rest.empty(), "/{} takes nothing, but is followed by '{}'", known.name,
            one_line(command.rest));
      return (this->*known.run)(command);
    }
  }
  for (const auto& [theirs, reason] : kNeedless) check(theirs != command.name, "there is no /{}; {}", theirs, reason);
  const std::vector<std::string> names = command_names();
  const auto begun = std::find_if(names.begin(), names.end(), [&](const std::string& n) {
    return !command.name.empty() && n.starts_with(command.name);
  });
  const std::string near = begun != names.end() ? *begun : nearest(command.name, names);
  fail("unknown command '/{}'; {} (a message that begins with / is written //)", one_line(command.name),
       near.empty() ? "/help lists all" : fmt::format("did you mean '/{}'?", near));
}

void Session::say(const std::string& text) {
  check(conversation_.open_calls().empty(),
        "the last answer has calls without results; /regenerate answers again, /undo removes your last message");
  conversation_.add_user(text);
  again_ = 0;
  try {
    answer();
  } catch (const DoesNotFit&) {
    if (!screen_.interactive()) throw;
    conversation_.undo();
    unsent_ = (text.starts_with('/') ? "/" : "") + text;  // as it was written
    throw;
  }
}

// Where this throws, the message stays, and waits; say() gives one back that does not fit.
void Session::answer() {
  for (size_t round = 0; round < kMostRounds; ++round) {
    reply();
    if (!answer_calls()) return;
  }
  fail("the model has called functions {} times in a row; /regenerate lets it go on", kMostRounds);
}

void Session::reply() {
  ReplySettings settings = settings_.get();
  settings.tools = conversation_.tools();
  Reply reply;
  screen_.begin_reply();
  try {
    reply = replier_.reply(
        conversation_.messages(), settings, again_, [&](const ReplyPart& p) { screen_.show(p); },
        [&] { return screen_.interrupted(); });
  } catch (const DoesNotFit& e) {
    screen_.end_reply(nullptr);
    make_room(e);
    return this->reply();
  } catch (...) {
    screen_.end_reply(nullptr);
    throw;
  }
  screen_.end_reply(&reply, stats_);
  if (reply.tokens > 0) add(reply);
}

// Removes the oldest turns where the user agrees; else throws.
void Session::make_room(const DoesNotFit& e) {
  const size_t n = e.oldest_turns;
  const std::string oldest =
      n == 1 ? "the oldest message and its answer" : fmt::format("the {} oldest messages and their answers", n);
  if (n == 0) throw DoesNotFit(fmt::format("{}; shorten the message, or start with a larger --ctx", e.what()), 0);
  if (!screen_.interactive() || !screen_.confirm(fmt::format("{}; remove {}?", e.what(), oldest)))
    throw DoesNotFit(fmt::format("{}; /drop {} makes room", e.what(), n), n);
  conversation_.drop_oldest(n);
}

// What can be answered of its calls stays.
void Session::add(const Reply& reply) {
  ordered_json message = reply.message;
  if (message.contains("tool_calls")) {
    ordered_json calls = ordered_json::array();
    for (const ordered_json& call : message.at("tool_calls"))
      if (reply.end == ReplyEnd::done && call.at("function").at("arguments").is_object()) calls.push_back(call);
    if (calls.size() < message.at("tool_calls").size()) screen_.note("a call that was cut off is left out");
    message.erase("tool_calls");
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
  }
  const bool says =
      message.contains("tool_calls") || message.contains("reasoning_content") || message.at("content") != "";
  if (says || reply.message == message) conversation_.add(std::move(message));
}

// Adds the results of the latest message's calls. False: it has none, or the user wants none, and they are removed.
bool Session::answer_calls() {
  const ordered_json calls = conversation_.open_calls();
  std::vector<ordered_json> results;
  for (const ordered_json& call : calls) {
    std::optional<std::string> result;
    try {
      result = result_of(call);
    } catch (...) {
      conversation_.drop_last();
      throw;
    }
    if (!result) {
      conversation_.drop_last();
      screen_.note("the call was removed; /regenerate answers again");
      return false;
    }
    results.push_back(result_message(call, *result));
  }
  for (ordered_json& result : results) conversation_.add(std::move(result));
  return !calls.empty();
}

// nullopt: the user wants none.
std::optional<std::string> Session::result_of(const ordered_json& call) {
  const std::string name = call.at("function").at("name"), shown = one_line(shown_call(call));
  if (!is_tool(conversation_.tools(), name)) return "Error: there is no function '" + name + "'";
  const bool has_command = !tool_command_.command.empty();
  if (has_command && (tool_command_.always || screen_.confirm("run the command for " + shown + "?")))
    return run_tool_command(tool_command_.command, call.at("function"), [&] { return screen_.interrupted(); });
  const LineRead read = read_lines(one_line(name) + " =");
  if (read.kind == LineRead::text) return read.line;
  if (read.kind == LineRead::end) {
    check(screen_.interactive(), "the input ends where the result of {} is expected; write one, or use --tool-command",
          shown);
    quitting_ = true;
  }
  return std::nullopt;
}

void Session::require_turn() const { check(conversation_.turns() > 0, "there is no message yet; write one"); }

void Session::help(const CommandLine&) {
  std::string text;
  for (const Known& known : commands())
    text += fmt::format("{:<17} {}\n", fmt::format("/{} {}", known.name, known.operands), known.help);
  screen_.print(
      text +
      "\nA line that ends with \\ continues on the next one; \"\"\" begins and ends a text of several lines.\n"
      "Ctrl-C stops an answer and keeps what was written.\n"
      "The result of a call is typed after its name, as messages are; Ctrl-C there removes the call.\n");
}

void Session::system(const CommandLine& command) { conversation_.set_system(command.rest); }

void Session::tools(const CommandLine& command) {
  if (command.rest.empty()) return screen_.print(list_of_tools(conversation_.tools()));
  const ordered_json tools = command.rest == "off" ? ordered_json() : load_tools(command.rest);
  replier_.require_tools(tools);
  conversation_.set_tools(tools);
}

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
  size_t count = 1;
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
  if (file != file_ && is_taken(file) && !is_another_file(file)) {
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
  Conversation loaded = load_conversation(command.rest);
  if (loaded.tools().is_null()) loaded.set_tools(conversation_.tools());
  replier_.require_tools(loaded.tools());
  conversation_ = std::move(loaded);
  file_ = command.rest;
  again_ = 0;
  screen_.note(fmt::format("{} messages loaded", conversation_.messages().size()));
}

void Session::stats(const CommandLine&) {
  stats_ = !stats_;
  screen_.note(stats_ ? "numbers follow each answer" : "no numbers follow answers");
}

void Session::clear(const CommandLine&) {
  conversation_.clear();
  again_ = 0;
  file_.clear();
}

void Session::quit(const CommandLine&) { quitting_ = true; }

}  // namespace toy::talk

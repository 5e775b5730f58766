// Tools in a chat, without a model.
#include "talk/tools.h"

#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <memory>

#include "fake_screen.h"
#include "talk/tool_command.h"
#include "testing/errors.h"
#include "testing/files.h"

namespace toy::talk::tools_test {
namespace {

using toy::testing::expect_contains;
using toy::testing::message_of;

constexpr const char* kTools = R"([{"name": "f", "description": "An f", "input_schema": {"type": "object"}},
                                   {"type": "function", "function": {"name": "g", "return": "a number"}}])";

Reply says(const std::string& text) { return {.message = answer_message(text, "", {}), .tokens = 1}; }
Reply calls(const std::vector<dialog::ToolCall>& list, ReplyEnd end = ReplyEnd::done) {
  return {.message = answer_message("", "", list), .end = end, .tokens = 1};
}

// Gives these answers, the last again and again.
struct Scripted : Replier {
  std::deque<Reply> answers;
  std::vector<ordered_json> asked;  // messages
  ordered_json tools;               // at last
  explicit Scripted(std::deque<Reply> list) : answers(std::move(list)) {}
  void require_tools(const ordered_json& given) const override {
    check(given.is_null() || answers.size() > 0, "no tools here");
  }
  Reply reply(const ordered_json& messages, const ReplySettings& settings, uint64_t,
              const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>&) override {
    asked.push_back(messages);
    tools = settings.tools;
    const Reply next = answers.front();
    if (answers.size() > 1) answers.pop_front();
    on_part({.text = next.message.at("content").get_ref<const std::string&>()});
    return next;
  }
};

class ToolSessions : public ::testing::Test, protected toy::testing::Folder {
 protected:
  const Conversation& run(FakeScreen& screen, Scripted& replier, const ToolCommand& command = {},
                          const std::string& tools = kTools) {
    Settings settings;
    settings.get = [] { return ReplySettings(); };
    Conversation c;
    if (!tools.empty()) c.set_tools(load_tools(write("tools.json", tools)));
    session_ = std::make_unique<Session>(screen, replier, settings, std::move(c), command);
    session_->run();
    return session_->conversation();
  }
  static std::string roles(const Conversation& c) {
    std::string all;
    for (const auto& m : c.messages()) all += m.at("role").get<std::string>()[0];
    return all;
  }

 private:
  std::unique_ptr<Session> session_;
};

TEST_F(ToolSessions, TheUserTypesResults) {
  FakeScreen s{"q", "one \\", "line", "/two", "next"};
  Scripted r({calls({{"a", "f", R"({"n": 1})"}, {"b", "g", ""}}), says("done"), says("more")});
  const Conversation& c = run(s, r);
  EXPECT_EQ(s.shown, R"(f({"n":1})g({})|done|more|)");
  EXPECT_EQ(s.marks, ">|f =|.|g =|>|>|");
  EXPECT_EQ(roles(c), "uattaua");
  EXPECT_EQ(c.messages()[2],
            (ordered_json{{"role", "tool"}, {"content", "one \nline"}, {"tool_call_id", "a"}, {"name", "f"}}));
  EXPECT_EQ(c.messages()[3].at("content"), "/two");
  EXPECT_EQ(r.asked[1].size(), 4u);
  EXPECT_EQ(r.tools.size(), 2u);
  EXPECT_EQ(s.remembered, (std::vector<std::string>{"q", "next"}));
}

TEST_F(ToolSessions, UndoEditAndRegenerateTakeTheWholeTurn) {
  const Reply call = calls({{"a", "f", "{}"}});
  const std::string file = path("c.jsonl");
  FakeScreen s{"q", "r", "/save " + file, "/regenerate", "/edit p", "r2", "/undo", "/load " + file, "/undo", "x"};
  Scripted r({call, says("one"), says("two"), call, says("three"), says("four")});
  EXPECT_EQ(roles(run(s, r)), "ua");
  EXPECT_EQ(s.shown, "f({})|one|two|f({})|three|four|");
  EXPECT_EQ(roles(load_conversation(file)), "uata");
  EXPECT_EQ(load_conversation(file).tools().size(), 2u);
  EXPECT_EQ(r.asked[2].size(), 1u) << "without the call and its result";
}

TEST_F(ToolSessions, CtrlCAtAResultRemovesTheCall) {
  FakeScreen s{"q", "first"};
  s.lines.push_back({LineRead::interrupted, ""});
  s.lines.push_back({LineRead::text, "/regenerate"});
  Scripted r({calls({{"a", "f", "{}"}, {"b", "g", "{}"}}), says("one")});
  EXPECT_EQ(roles(run(s, r)), "ua");
  expect_contains(s.notes, "the call was removed");
  FakeScreen ended{"q"};
  Scripted again({calls({{"a", "f", "{}"}})});
  EXPECT_EQ(roles(run(ended, again)), "u");
  FakeScreen script{"q"};
  script.a_user = false;
  expect_contains(message_of([&] { run(script, again); }), "the result of f({}) is expected");
}

TEST_F(ToolSessions, RoundsAreBounded) {
  FakeScreen s{"q"};
  Scripted r({calls({{"a", "f", "{}"}})});
  const Conversation& c = run(s, r, {"cat", true});
  EXPECT_EQ(r.asked.size(), 16u);
  EXPECT_EQ(c.messages().size(), 33u);
  EXPECT_EQ(c.messages().back().at("content"), R"({"name":"f","arguments":{}})");
  expect_contains(s.notes, "called functions 16 times");
}

TEST_F(ToolSessions, ACommandIsRunAfterAYes) {
  const Reply call = calls({{"a", "f", R"({"x": "\u001b[2J"})"}});
  FakeScreen yes{"q"};
  yes.yes = true;
  Scripted r({call, says("ok")});
  EXPECT_EQ(run(yes, r, {"echo 7", false}).messages()[2].at("content"), "7");
  expect_contains(yes.notes, R"(run the command for f({"x":)");
  EXPECT_EQ(yes.notes.find('\x1b'), std::string::npos);
  FakeScreen no{"q", "typed"};
  Scripted r2({call, says("ok")});
  EXPECT_EQ(run(no, r2, {"echo 7 >" + path("ran"), false}).messages()[2].at("content"), "typed");
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
  FakeScreen unknown{"q"};
  Scripted r3({calls({{"a", "rm", "{}"}}), says("ok")});
  EXPECT_EQ(run(unknown, r3, {"echo 7", true}).messages()[2].at("content"), "Error: there is no function 'rm'");
}

TEST_F(ToolSessions, CallsThatWereCutOffAreLeftOut) {
  FakeScreen s{"q", "p"};
  Scripted r({calls({{"a", "f", "{}"}}, ReplyEnd::length), calls({{"a", "f", R"({"n": )"}})});
  EXPECT_EQ(roles(run(s, r)), "uu");
  expect_contains(s.notes, "cut off");
}

TEST_F(ToolSessions, ToolsOfTheChat) {
  const std::string file = write("other.json", R"([{"name": "h", "description": "An h"}])");
  FakeScreen s{"/tools", "/tools " + file, "/tools", "a", "/tools off", "b", "/tools " + path("none")};
  Scripted r({says("x")});
  run(s, r, {}, "");
  expect_contains(s.shown, "no tools");
  expect_contains(s.shown, "An h");
  expect_contains(s.notes, "none");
  EXPECT_TRUE(r.tools.is_null());
}

TEST_F(ToolSessions, FilesOfTools) {
  const auto reason = [&](const std::string& text) {
    return toy::testing::error_of([&] { load_tools(write("t.json", text)); });
  };
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {"x", "t.json"},
           {"[]", "no tools"},
           {"{}", "is one object; put it into a list"},
           {R"([{"description": "x"}])", "tools[0]"},
           {R"([{"name": "f"}, {"name": "f"}])", "tools[1].function.name"},
           {R"([{"name": "f", "parameters": {"type": "string"}}])", "tools[0].function.parameters"}})
    expect_contains(reason(text), word);
  expect_contains(reason("[]"), "t.json");
  const ordered_json tools = load_tools(write("t.json", kTools));
  EXPECT_EQ(tools[1].at("function").at("return"), "a number") << "is for the template";
  EXPECT_EQ(callable_tools(tools).size(), 2u);
  EXPECT_TRUE(is_tool(tools, "g"));
  EXPECT_FALSE(is_tool(tools, "h"));
}

const std::function<bool()> kNever = [] { return false; };

std::string result_of(const std::string& command) {
  const ordered_json function{{"name", "f"}, {"arguments", {{"text", "a\nb"}}}};
  return run_tool_command(command, function, kNever).value();
}

TEST(ToolCommand, ResultsAndFailures) {
  EXPECT_EQ(result_of("cat; wc -l </dev/null"), "{\"name\":\"f\",\"arguments\":{\"text\":\"a\\nb\"}}\n0");
  EXPECT_EQ(result_of("printf 'a\\n\\n'"), "a\n");
  EXPECT_EQ(result_of("printf '\\377'"), "\xef\xbf\xbd");
  EXPECT_EQ(result_of("exit 3"), "Error: the command ended with exit code 3");
  EXPECT_EQ(result_of("echo why; exit 1"), "Error: the command ended with exit code 1: why");
  EXPECT_EQ(result_of("kill -9 $$"), "Error: the command was ended by signal 9");
  EXPECT_EQ(result_of("exec >&-; exit 0"), "");
}

TEST(ToolCommand, IsBounded) {
  const std::string much = result_of("yes");
  EXPECT_LT(much.size(), kMostResultBytes + 100);
  expect_contains(much, "left out");
  // What stays in the background does not hold the result.
  const ordered_json function{{"name", "f"}, {"arguments", ordered_json::object()}};
  int asked = 0;
  EXPECT_EQ(run_tool_command("sleep 60 2>/dev/null & echo started", function, [&] { return ++asked > 500; }),
            "started");
}

TEST(ToolCommand, Stops) {
  const ordered_json function{{"name", "f"}, {"arguments", ordered_json::object()}};
  int asked = 0;
  EXPECT_EQ(run_tool_command("sleep 600", function, [&] { return ++asked > 2; }), std::nullopt);
}

}  // namespace
}  // namespace toy::talk::tools_test

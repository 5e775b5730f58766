// The chat without a terminal and without a model.
#include "talk/session.h"

#include <gtest/gtest.h>

#include "fake_screen.h"
#include "testing/errors.h"
#include "testing/files.h"

namespace toy::talk::session_test {
namespace {

using toy::testing::expect_contains;
using toy::testing::message_of;

// Answers with the messages' number, the question and the seed.
struct FakeReplier : Replier {
  void require_tools(const ordered_json&) const override {}
  std::string refuses;     // a question that the template does not like
  size_t most = SIZE_MAX;  // messages that fit
  Reply reply(const ordered_json& messages, const ReplySettings& settings, uint64_t again,
              const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>&) override {
    const std::string question = messages.back().at("content");
    if (!refuses.empty() && question == refuses) fail("the template refuses this");
    if (messages.size() > most) throw DoesNotFit("too long", (messages.size() - most + 1) / 2);
    const std::string text = std::to_string(messages.size()) + question + std::to_string(again) +
                             (settings.stops.empty() ? "" : settings.stops[0]);
    on_part({.text = text});
    return {.message = {{"role", "assistant"}, {"content", text}}, .tokens = 1};
  }
};

class Sessions : public ::testing::Test, protected toy::testing::Folder {
 protected:
  const Conversation& run(FakeScreen& screen) {
    settings_.get = [this] { return ReplySettings{.stops = {value_}}; };
    settings_.set = [this](const std::string& name, const std::string& value) {
      check(name == "stop", "unknown {}", name);
      value_ = value;
    };
    settings_.list = [] { return "all of them"; };
    session_ = std::make_unique<Session>(screen, replier, settings_, Conversation());
    session_->run();
    EXPECT_EQ(screen.open, 0);
    return session_->conversation();
  }
  static std::string texts(const Conversation& c) {
    std::string all;
    for (const auto& m : c.messages()) all += m.at("content").get<std::string>() + ",";
    return all;
  }
  FakeReplier replier;

 private:
  Settings settings_;
  std::string value_;
  std::unique_ptr<Session> session_;
};

TEST_F(Sessions, AnswersMessagesWithAllThatWasSaid) {
  FakeScreen s{"/system S", "a", "", "  ", "b \\", "c", "//d"};
  EXPECT_EQ(texts(run(s)), "S,a,2a0,b \nc,4b \nc0,/d,6/d0,");
  EXPECT_EQ(s.shown, "2a0|4b \nc0|6/d0|");
  EXPECT_EQ(s.remembered, (std::vector<std::string>{"/system S", "a", "b \nc", "//d"}));
}

TEST_F(Sessions, CommandsHaveOtherProgramsNamesToo) {
  for (const char* word : {"/bye", "/exit", "/q"}) {
    FakeScreen s{"a", word, "b"};
    EXPECT_EQ(texts(run(s)), "a,1a0,") << word;
  }
  FakeScreen cleared{"a", "/new", "b"};
  EXPECT_EQ(texts(run(cleared)), "b,1b0,");
  FakeScreen message{"exit"};
  EXPECT_EQ(texts(run(message)), "exit,1exit0,");
  expect_contains(message.notes, "/quit is the command; this is sent as a message");
}

TEST_F(Sessions, RegenerateTakesTheNextSeedAndAMessageTheFirst) {
  FakeScreen s{"/regenerate", "a", "/regenerate", "/regenerate", "b"};
  EXPECT_EQ(texts(run(s)), "a,1a2,b,3b0,");
  EXPECT_EQ(s.shown, "1a0|1a1|1a2|3b0|");
  expect_contains(s.notes, "no message yet");
}

TEST_F(Sessions, QuotesSayHowTheTextEnds) {
  FakeScreen s{"\"\"\"one", "two\"\"\""};
  EXPECT_EQ(texts(run(s)).substr(0, 8), "one\ntwo,");
  expect_contains(s.notes, "\"\"\" at the end of a line ends the text");
}

TEST_F(Sessions, EditUndoClear) {
  FakeScreen s{"a", "b", "/edit c", "/edit", "!", "/undo", "d"};
  EXPECT_EQ(texts(run(s)), "a,1a0,d,3d0,");
  EXPECT_EQ(s.shown, "1a0|3b0|3c0|3c!0|3d0|");
  EXPECT_EQ(s.edited, "c");
  FakeScreen cleared{"/system S", "a", "/clear", "b"};
  EXPECT_EQ(texts(run(cleared)), "S,b,2b0,");
}

TEST_F(Sessions, NumbersFollowAnswersWhereTheyAreWanted) {
  FakeScreen s{"a", "/stats", "b", "/stats", "c"};
  run(s);
  EXPECT_EQ(s.shown, "1a0|3b0(numbers)|5c0|");
}

TEST_F(Sessions, SetChangesTheNextAnswer) {
  FakeScreen s{"/set stop X", "a", "/set", "/set stop", "/set stpo 1"};
  run(s);
  EXPECT_EQ(s.shown, "1a0X|all of them");
  expect_contains(s.notes, "/set stop needs a value");
  expect_contains(s.notes, "unknown stpo");
}

TEST_F(Sessions, WhatIsRefusedStaysAndCanBeEdited) {
  replier.refuses = "bad";
  FakeScreen s{"a", "bad", "/edit good"};
  EXPECT_EQ(texts(run(s)), "a,1a0,good,3good0,");
  expect_contains(s.notes, "the template refuses this");
}

TEST_F(Sessions, TooLongAConversationLosesItsOldestTurns) {
  replier.most = 3;
  FakeScreen agrees{"/system S", "a", "b", "/undo", "c"};
  agrees.yes = true;
  EXPECT_EQ(texts(run(agrees)), "S,c,2c0,");
  expect_contains(agrees.notes, "too long; remove the oldest message and its answer?");
  EXPECT_EQ(agrees.shown, "2a0||2b0|2c0|");
}

// A message that does not fit poisons nothing: it is back in the editor, and the next one is answered.
TEST_F(Sessions, AMessageThatDoesNotFitIsEditedAgain) {
  replier.most = 3;
  FakeScreen s{"/system S", "a", "b"};
  s.lines.push_back({LineRead::interrupted, "b"});  // discards it
  s.lines.push_back({LineRead::text, "/drop"});
  s.lines.push_back({LineRead::text, "c"});
  EXPECT_EQ(texts(run(s)), "S,c,2c0,");
  EXPECT_EQ(s.edited, "b");
  expect_contains(s.notes, "too long; /drop 1 makes room");
  FakeScreen pipe{"/system S", "a", "b", "c"};
  pipe.a_user = false;
  EXPECT_THROW(run(pipe), DoesNotFit);
}

TEST_F(Sessions, UnknownCommandsNameTheNearest) {
  FakeScreen s{"a", "/regen", "/sytem x", "/xyzzy", "/undo now", "/drop x", "/drop 0"};
  run(s);
  for (const char* part : {"'/regen'; did you mean '/regenerate'?", "did you mean '/system'?", "/help lists all",
                           "takes nothing", "a number of"})
    expect_contains(s.notes, part);
  FakeScreen help{"/help"};
  run(help);
  for (const char* name : {"/help", "/system", "/set", "/regenerate", "/edit", "/undo", "/drop", "/save", "/load",
                           "/clear", "/quit", "/tools"})
    expect_contains(help.shown, name);
}

TEST_F(Sessions, SaveAsksBeforeItReplacesAnother) {
  const std::string file = path("c.jsonl");
  FakeScreen s{"/save " + file, "a", "/save " + file, "b", "/save"};
  run(s);
  EXPECT_EQ(load_conversation(file).turns(), 2u) << s.notes;
  expect_contains(s.notes, "nothing to save");
  FakeScreen other{"x", "/save " + file};
  run(other);
  EXPECT_EQ(load_conversation(file).turns(), 2u);
  expect_contains(other.notes, "replace it?");
  other = FakeScreen{"x", "/save " + file};
  other.yes = true;
  run(other);
  EXPECT_EQ(load_conversation(file).turns(), 1u);
  FakeScreen again{"/load " + file, "y", "/save"};
  EXPECT_EQ(texts(run(again)), "x,1x0,y,3y0,");
  EXPECT_EQ(load_conversation(file).turns(), 2u);
  const std::string novel = write("novel", "It was a dark night.\n");
  FakeScreen mine{"x", "/save " + novel, "/load " + novel, "/load"};
  mine.yes = true;
  EXPECT_EQ(texts(run(mine)), "x,1x0,") << "a file that cannot be loaded changes nothing";
  EXPECT_EQ(toy::testing::slurp(novel), "It was a dark night.\n");
}

TEST_F(Sessions, CtrlCClearsTheLineAndTwiceLeaves) {
  FakeScreen s{"a"};
  s.lines.push_back({LineRead::interrupted, "half a line"});
  s.lines.push_back({LineRead::text, "b\\"});
  s.lines.push_back({LineRead::interrupted, ""});  // of a message that has begun
  s.lines.push_back({LineRead::text, "c"});
  s.lines.push_back({LineRead::interrupted, ""});
  s.lines.push_back({LineRead::text, "d"});
  s.lines.push_back({LineRead::interrupted, ""});
  s.lines.push_back({LineRead::interrupted, ""});
  s.lines.push_back({LineRead::text, "never"});
  EXPECT_EQ(texts(run(s)), "a,1a0,c,3c0,d,5d0,");
  FakeScreen editing{"a", "/edit"};
  editing.lines.push_back({LineRead::interrupted, "a"});
  editing.lines.push_back({LineRead::text, "b"});
  EXPECT_EQ(texts(run(editing)), "a,1a0,b,3b0,");
}

TEST_F(Sessions, WithoutAUserTheFirstErrorEndsTheChat) {
  FakeScreen s{"a", "/nosuch", "b"};
  s.a_user = false;
  expect_contains(message_of([&] { run(s); }), "/nosuch");
  EXPECT_EQ(s.shown, "1a0|");
  const std::string file = write("c.jsonl", R"({"messages": [{"role": "user", "content": "mine"}]})");
  FakeScreen saving{"a", "/save " + file};
  saving.a_user = false;
  expect_contains(message_of([&] { run(saving); }), "another conversation");
  EXPECT_EQ(*load_conversation(file).last_user(), "mine");
  FakeScreen rest{"\"\"\"no", "end"};  // what has begun is said
  rest.a_user = false;
  EXPECT_EQ(texts(run(rest)), "no\nend\n,1no\nend\n0,");
}

}  // namespace
}  // namespace toy::talk::session_test

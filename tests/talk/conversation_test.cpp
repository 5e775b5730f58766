#include "talk/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/errors.h"
#include "testing/files.h"

namespace toy::talk::conversation_test {
namespace {

ordered_json answer(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }

Conversation of_three_turns() {
  Conversation c;
  c.set_system("Be brief.");
  for (const char* n : {"1", "2", "3"}) {
    c.add_user("question " + std::string(n));
    c.add(answer("answer " + std::string(n)));
  }
  return c;
}

TEST(Conversation, SystemComesFirstAndIsReplaced) {
  Conversation c = of_three_turns();
  ASSERT_EQ(c.messages().size(), 7u);
  c.set_system("Be kind.");
  ASSERT_EQ(c.messages().size(), 7u);
  EXPECT_EQ(c.messages()[0].at("content"), "Be kind.");
  c.set_system("");
  ASSERT_EQ(c.messages().size(), 6u);
  EXPECT_EQ(c.messages()[0].at("content"), "question 1");
}

TEST(Conversation, UndoDropAndClear) {
  Conversation c = of_three_turns();
  EXPECT_EQ(c.turns(), 3u);
  c.drop_answer();
  EXPECT_TRUE(c.waits());
  c.drop_answer();  // there is none any more
  EXPECT_EQ(c.last_user(), "question 3");
  EXPECT_TRUE(c.undo());
  EXPECT_FALSE(c.waits());
  EXPECT_EQ(c.last_user(), "question 2");
  c.drop_oldest(1);
  ASSERT_EQ(c.messages().size(), 3u);
  EXPECT_EQ(c.messages()[0].at("role"), "system");
  EXPECT_EQ(c.messages()[1].at("content"), "question 2");
  EXPECT_EQ(c.messages()[2].at("content"), "answer 2");
  c.clear();
  ASSERT_EQ(c.messages().size(), 1u);
  EXPECT_FALSE(c.undo());
  EXPECT_EQ(c.last_user(), std::nullopt);
}

TEST(Conversation, CallsAndResultsAreOfTheirTurn) {
  const char* row = R"({"messages": [
    {"role": "user", "content": "1"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "r"},
    {"role": "assistant", "content": "x"},
    {"role": "user", "content": "2"},
    {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"n": 1}}]}], "tools": [{"name": "f"}]})";
  Conversation c = Conversation::parse("row", row);
  EXPECT_EQ(Conversation::parse("line", c.line()).messages(), c.messages());
  EXPECT_EQ(Conversation::parse("line", c.line()).tools(), c.tools());
  EXPECT_EQ(c.tools(),
            (ordered_json{
                {{"type", "function"},
                 {"function",
                  {{"name", "f"}, {"parameters", {{"type", "object"}, {"properties", ordered_json::object()}}}}}}}));
  EXPECT_EQ(c.turns(), 2u);
  EXPECT_EQ(c.open_calls().at(0).at("function").at("arguments").at("n"), 1);
  EXPECT_FALSE(c.waits());
  c.drop_answer();
  EXPECT_TRUE(c.waits());
  EXPECT_TRUE(c.open_calls().empty());
  c.undo();
  ASSERT_EQ(c.messages().size(), 4u);
  EXPECT_EQ(c.messages()[2].at("name"), "f");
  c.drop_last();
  EXPECT_TRUE(c.waits()) << "for the answer after a result";
  c.drop_answer();
  EXPECT_EQ(c.messages().size(), 1u);
}

class ConversationFiles : public ::testing::Test, protected toy::testing::Folder {};

TEST_F(ConversationFiles, SavingAndLoadingKeepsEverything) {
  Conversation c = of_three_turns();
  c.add_user("a \"quote\",\na line, \xc3\xa9 and \\");
  c.add({{"role", "assistant"}, {"content", "x"}, {"reasoning_content", "because"}});
  save_conversation(path("c.jsonl"), c);
  const std::string text = toy::testing::slurp(path("c.jsonl"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(load_conversation(path("c.jsonl")).messages(), c.messages());
  c.undo();
  save_conversation(path("c.jsonl"), c);  // a conversation may be replaced
  EXPECT_EQ(load_conversation(path("c.jsonl")).messages(), c.messages());
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ConversationFiles, WhatIsNoConversationStays) {
  const Conversation c = of_three_turns();
  for (const std::string text : {"my novel\n", "{\"text\": \"a\"}\n", "{\"messages\": []}\n{\"messages\": []}\n"}) {
    const std::string file = write("file", text);
    EXPECT_THROW(save_conversation(file, c), Error) << text;
    EXPECT_EQ(toy::testing::slurp(file), text);
  }
  write("empty", "");
  save_conversation(path("empty"), c);
  EXPECT_EQ(load_conversation(path("empty")).turns(), 3u);
  EXPECT_THROW(save_conversation(path(), c), Error);
  EXPECT_THROW(save_conversation(path("no/such/folder"), c), Error);
}

TEST_F(ConversationFiles, BadFilesAreRefusedWithTheReason) {
  const auto reason = [&](const std::string& text) {
    return toy::testing::error_of([&] { load_conversation(write("bad.jsonl", text)); });
  };
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {"", "bad.jsonl"},
           {"hello", "bad.jsonl"},
           {"[]", "messages"},
           {R"({"messages": {}})", "messages"},
           {R"({"messages": [], "prompt": []})", "prompt"},
           {R"({"messages": [], "tools": {}})", "tools"},
           {R"({"messages": [{"content": "x"}]})", "messages[0].role"},
           {R"({"messages": [{"role": "user", "content": "x"}, {"role": "user"}]})", "messages[1].content"},
           {R"({"messages": [{"role": "user", "content": [1]}]})", "messages[0].content"},
           {"{\"messages\": []}\n{\"messages\": []}\n", "several lines"}})
    EXPECT_NE(reason(text).find(word), std::string::npos) << text << "\n" << reason(text);
}

}  // namespace
}  // namespace toy::talk::conversation_test

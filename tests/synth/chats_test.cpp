// Conversations about a small world.
#include "toy/synth/chats.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace toy::chats_test {
namespace {

TEST(Chats, AreRowsOfQuestionsAndAnswers) {
  const std::string all = write_chats(1, 200);
  EXPECT_EQ(write_chats(1, 50), all.substr(0, write_chats(1, 50).size()));  // conversation i depends on (seed, i)
  EXPECT_NE(write_chats(2, 200), all);
  std::istringstream lines(all);
  std::set<std::string> questions;
  int64_t i = 0;
  for (std::string line; std::getline(lines, line); ++i) {
    const auto messages = nlohmann::json::parse(line).at("messages");
    const std::vector<ChatTurn> turns = chat_turns(1, i);
    ASSERT_EQ(messages.size(), 2 * turns.size());
    for (size_t t = 0; t < turns.size(); ++t) {
      EXPECT_EQ(messages[2 * t].at("content"), turns[t].question);
      EXPECT_EQ(messages[2 * t + 1].at("content"), turns[t].answer);
      questions.insert(turns[t].question);
    }
  }
  EXPECT_EQ(i, 200);
  for (const char* asked : {"Hello!", "What is my name?", "And what does it eat?", "What is the opposite of hot?"})
    EXPECT_TRUE(questions.contains(asked)) << asked;
}

TEST(Chats, AnswersFollowFromTheConversation) {
  for (int64_t i = 0; i < 500; ++i) {
    std::string name;
    for (const ChatTurn& t : chat_turns(3, i)) {
      int a = 0, b = 0;
      if (std::sscanf(t.question.c_str(), "What is %d plus %d?", &a, &b) == 2) {
        EXPECT_TRUE(t.answer.ends_with(" is " + std::to_string(a + b) + ".")) << t.answer;
      }
      if (t.question.starts_with("My name is ")) name = t.question.substr(11);
      if (t.question == "What is my name?") {
        EXPECT_EQ(t.answer, "Your name is " + name);
      }
    }
  }
}

}  // namespace
}  // namespace toy::chats_test

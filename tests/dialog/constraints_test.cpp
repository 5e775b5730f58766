// What constraints of requests cost together: equal ones are one, and all of them have a limit.
#include "dialog/constraints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "testing/errors.h"
#include "testing/models.h"

namespace toy::dialog {
namespace {

using testing::error_of;
using testing::expect_contains;

AnswerRules gbnf(const std::string& grammar) {
  AnswerRules r;
  r.form = {.kind = TextForm::gbnf, .schema = {}, .grammar = grammar, .field = "grammar"};
  return r;
}

// About a megabyte of states; another one for each letter.
AnswerRules large(char letter) {
  std::string text;
  for (int i = 0; i < 12000; ++i) text += char('a' + (i * 7 + letter) % 26);
  return gbnf(fmt::format("root ::= \"{}{}\"", letter, text));
}

class ConstraintMemory : public ::testing::Test {
 protected:
  Constraints with(const ConstraintLimits& limits) const { return {*tokenizer_, nullptr, ThoughtMarks(), limits}; }
  const std::shared_ptr<const Tokenizer> tokenizer_ = make_byte_tokenizer();
};

TEST_F(ConstraintMemory, EqualRequestsShareOne) {
  Constraints all = with({.kept = 0});
  const auto first = all.of(large('a'), ThoughtState::ended).constraint,
             same = all.of(large('a'), ThoughtState::ended).constraint;
  EXPECT_EQ(first, same);
  EXPECT_NE(first, all.of(large('b'), ThoughtState::ended).constraint);
  EXPECT_GT(bytes_of(*first), 500'000u);
}

TEST_F(ConstraintMemory, AllHaveALimit) {
  const size_t one = bytes_of(*with({}).of(large('a'), ThoughtState::ended).constraint);
  Constraints all = with({.bytes = 4 * one});
  std::vector<std::shared_ptr<const TokenConstraint>> used;
  int busy = 0;
  for (char c = 'a'; c <= 'z'; ++c) {
    try {
      used.push_back(all.of(large(c), ThoughtState::ended).constraint);
    } catch (const ConstraintsBusy& e) {
      expect_contains(e.what(), {"try again later"});
      ++busy;
    }
  }
  EXPECT_EQ(used.size(), 3u);
  EXPECT_EQ(busy, 23);
  EXPECT_EQ(all.of(large('a'), ThoughtState::ended).constraint, used[0]);  // equal ones need no room
  used.clear();
  for (char c = 'a'; c <= 'z'; ++c)
    EXPECT_NE(all.of(large(c), ThoughtState::ended).constraint, nullptr);  // nobody uses the others
}

// Trees of JSON take many times their text. Who waits for an answer shares the tools that it may call.
TEST_F(ConstraintMemory, ToolsAreSharedAndCounted) {
  const CallForm* form = call_form_of("{# <tool_call> #}{{ tools }}");
  const auto tools = [](int i) {
    AnswerRules r{.chat = true};
    nlohmann::ordered_json schema{{"type", "object"}, {"x-notes", nlohmann::ordered_json::array()}};
    schema["x-notes"].get_ref<nlohmann::ordered_json::array_t&>().assign(10000, nlohmann::ordered_json::array());
    r.tools.push_back({.name = "f" + std::to_string(i), .parameters = schema, .strict = false, .json = schema});
    return r;
  };
  Constraints all(*tokenizer_, form, ThoughtMarks(), {.bytes = 2'000'000});
  std::vector<Bound> used;
  for (int i = 0; i < 9; ++i) {
    try {
      used.push_back(all.of(tools(i), ThoughtState::ended));
    } catch (const ConstraintsBusy&) {
      break;
    }
  }
  EXPECT_GT(used.size(), 1u);
  EXPECT_LT(used.size(), 4u);  // the arrays alone take 16 + 24 bytes each
  ASSERT_NE(used[0].tools, nullptr);
  EXPECT_EQ(used[0].tools->front().name, "f0");
  EXPECT_EQ(used[0].tools->front().parameters["x-notes"].size(), 10000u);
  const Bound same = all.of(tools(0), ThoughtState::ended);
  EXPECT_EQ(same.tools, used[0].tools);
  EXPECT_EQ(same.constraint, used[0].constraint);
  const auto kept = used[0].tools;
  used.clear();
  EXPECT_NO_THROW(all.of(tools(8), ThoughtState::ended));
  EXPECT_EQ(kept->front().name, "f0");
}

TEST_F(ConstraintMemory, SourcesHaveALimit) {
  Constraints all = with({.source = 1000});
  expect_contains(error_of([&] { all.of(large('a'), ThoughtState::ended).constraint; }), {"at most 1000"});
}

TEST_F(ConstraintMemory, FromSeveralThreads) {
  Constraints all = with({});
  std::vector<std::shared_ptr<const TokenConstraint>> made(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < made.size(); ++i)
    threads.emplace_back([&, i] { made[i] = all.of(large(char('a' + i % 2)), ThoughtState::ended).constraint; });
  for (std::thread& t : threads) t.join();
  for (size_t i = 2; i < made.size(); ++i) EXPECT_EQ(made[i], made[i % 2]);
}

}  // namespace
}  // namespace toy::dialog

// What constraints of requests cost together: equal ones are one, and all of them have a limit.
#include "dialog/constraints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "dialog/control_tokens.h"
#include "dialog/forms.h"
#include "testing/errors.h"
#include "testing/models.h"

namespace toy::dialog::constraints_test {
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

// What may be written after the prompt.
class Answers : public ::testing::Test {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ = testing::control_tokens({"<|im_end|>"});
  bool allows(Constraints& all, const AnswerRules& r, ThoughtState state, const std::string& text) const {
    const auto c = all.of(r, state).constraint->clone();
    try {
      for (const int32_t id : tokenizer_->encode(text)) c->accept(id);
    } catch (const Error&) {
      return false;
    }
    std::vector<uint64_t> may(5);
    c->mask(may);
    const int32_t end = tokenizer_->end_of_generation().front();
    return (may[size_t(end) / 64] >> (end % 64)) & 1;
  }
};

// Cohere's models write marks around an answer, also one with a schema.
TEST_F(Answers, HaveTheMarksOfTheFamily) {
  const ThoughtMarks marks = thought_marks("<|START_THINKING|> <|START_RESPONSE|>");
  Constraints all(*tokenizer_, nullptr, marks);
  AnswerRules r;
  r.chat = true;
  r.form = {.kind = TextForm::json_schema, .schema = {{"const", 7}}, .grammar = "", .field = "response_format"};
  for (const ThoughtState state : {ThoughtState::ended, ThoughtState::possible}) {
    EXPECT_TRUE(allows(all, r, state, "<|START_RESPONSE|>7<|END_RESPONSE|>"));
    EXPECT_TRUE(allows(all, r, state, "7"));
    EXPECT_FALSE(allows(all, r, state, "<|START_RESPONSE|>8"));
  }
  EXPECT_TRUE(allows(all, r, ThoughtState::possible, "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>7"));
}

// Functionary says that an answer is for the reader.
TEST_F(Answers, SayWhoTheyAreFor) {
  Constraints all(*tokenizer_, &form(">>>${recipient}"), ThoughtMarks());
  AnswerRules r;
  r.chat = true;
  r.form = {.kind = TextForm::json_schema, .schema = {{"const", 7}}, .grammar = "", .field = "response_format"};
  EXPECT_TRUE(allows(all, r, ThoughtState::ended, "all\n7"));
  EXPECT_FALSE(allows(all, r, ThoughtState::ended, "7"));
  r.tools = *tools();
  EXPECT_TRUE(allows(all, r, ThoughtState::ended, "all\n7"));
  EXPECT_TRUE(allows(all, r, ThoughtState::ended, "now\n{}"));
  r.form = {};
  for (const char* text : {"all\nHello", "now\n{}", "all\nI look.>>>now\n{}"})
    EXPECT_TRUE(allows(all, r, ThoughtState::ended, text)) << text;
  for (const char* text : {"now\n7", "all\nI look.>>>now\n7"})
    EXPECT_FALSE(allows(all, r, ThoughtState::ended, text)) << text;
}

// Apertus calls in the middle of a thought.
TEST_F(Answers, CallsEndThoughts) {
  Constraints all(*tokenizer_, &form("<|tools_prefix|> <|tools_suffix|>"), thought_marks("<|inner_prefix|>"));
  AnswerRules r;
  r.chat = true;
  r.tools = *tools();
  const std::string thought = "<|inner_prefix|>I look.<|tools_prefix|>";
  EXPECT_TRUE(allows(all, r, ThoughtState::possible, thought + R"([{"now": {}}]<|tools_suffix|>)"));
  EXPECT_FALSE(allows(all, r, ThoughtState::possible, thought + R"([{"other)"));
}

}  // namespace
}  // namespace toy::dialog::constraints_test

// Questions with exact answers: every answer is computed again from its question.
#include "toy/synth/questions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "testing/errors.h"

namespace toy::questions_test {
namespace {

using nlohmann::json;

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> list;
  size_t at = 0;
  for (size_t end; (end = text.find(by, at)) != text.npos; at = end + by.size())
    list.push_back(text.substr(at, end - at));
  list.push_back(text.substr(at));
  return list;
}

// What a reader of the question answers.
std::string solve(const std::string& q) {
  std::smatch m;
  const auto is = [&](const char* pattern) { return std::regex_match(q, m, std::regex(pattern)); };
  if (is("How many (.) are in (.*)\\?")) {
    const std::string word = m[2];
    return std::to_string(std::count(word.begin(), word.end(), m.str(1)[0]));
  }
  if (is("How many words: (.*)\\?")) return std::to_string(split(m[1], " ").size());
  if (is("Repeat the word (.*)\\.")) return m[1];
  if (is("Spell (.*)\\.")) {
    std::string spelled;
    for (const char c : m.str(1)) spelled += std::string(spelled.empty() ? "" : " ") + c;
    return spelled;
  }
  if (is("Reverse the word (.*)\\.")) {
    const std::string word = m[1];
    return {word.rbegin(), word.rend()};
  }
  if (is("What is (\\d+) \\+ (\\d+)\\?")) return std::to_string(std::stoi(m[1]) + std::stoi(m[2]));
  if (is("What is (\\d+) - (\\d+)\\?")) return std::to_string(std::stoi(m[1]) - std::stoi(m[2]));
  if (is("Sort: (.*)\\.")) {
    std::vector<std::string> list = split(m[1], ", ");
    std::sort(list.begin(), list.end());
    std::string all;
    for (const std::string& s : list) all += (all.empty() ? "" : ", ") + s;
    return all;
  }
  if (is(".*Who has the (.*)\\?")) {
    const std::string what = m[1];
    std::regex_search(q, m, std::regex("(\\w+) has a \\w+ " + what + "\\."));
    return m[1];
  }
  if (is(".*What color is the (.*)\\?")) {
    const std::string what = m[1];
    std::regex_search(q, m, std::regex("has a (\\w+) " + what + "\\."));
    return m[1];
  }
  if (is(".*What does (.*) have\\?")) {
    const std::string who = m[1];
    std::regex_search(q, m, std::regex(who + " has (a \\w+ \\w+)\\."));
    return m[1];
  }
  if (is("As JSON: (\\w+) is (\\d+) years old(?: and likes the (\\w+))?(?: and has a (\\w+) and a (\\w+))?\\.")) {
    nlohmann::ordered_json j{{"name", m.str(1)}, {"age", std::stoi(m[2])}};
    if (m[3].matched) j["likes"] = m.str(3);
    if (m[4].matched) j["has"] = {m.str(4), m.str(5)};
    return j.dump();
  }
  if (is("Join with (.)( in capitals)?: (.*)\\.")) {
    std::string all;
    for (const std::string& s : split(m[3], ", ")) all += (all.empty() ? "" : m.str(1)) + s;
    if (m[2].matched)
      for (char& c : all) c = char(std::toupper(static_cast<unsigned char>(c)));
    return all;
  }
  if (is("Call weather for (\\w+)\\.")) return R"({"name":"weather","arguments":{"city":")" + m.str(1) + R"("}})";
  if (is("Call multiply for (\\d+) and (\\d+)\\."))
    return R"({"name":"multiply","arguments":{"a":)" + m.str(1) + R"(,"b":)" + m.str(2) + "}}";
  if (is("Call remind for (\\w+) at (\\d+)\\."))
    return R"({"name":"remind","arguments":{"who":")" + m.str(1) + R"(","hour":)" + m.str(2) + "}}";
  if (is("Call buy for a (\\w+) and a (\\w+)\\."))
    return R"({"name":"buy","arguments":{"things":[")" + m.str(1) + R"(",")" + m.str(2) + R"("]}})";
  return "unknown question: " + q;
}

TEST(Questions, AnswersAreRight) {
  for (int64_t level = 1; level <= 3; ++level)
    for (const bool held_out : {false, true})
      for (int64_t i = 0; i < 1200; ++i) {
        const QaPair q = question({.level = level, .held_out = held_out, .seed = 4}, i);
        EXPECT_EQ(q.answer, solve(q.question)) << q.question;
        EXPECT_EQ(is_held_out(q.question), held_out);
        EXPECT_TRUE(q.kind.ends_with(":" + std::to_string(level))) << q.kind;
      }
}

TEST(Questions, KindsTakeTurnsAndNothingHeldOutIsTrainedOn) {
  std::set<std::string> trained, held, kinds;
  for (int64_t i = 0; i < 4000; ++i) {
    trained.insert(question({.seed = 1}, i).question);
    const QaPair q = question({.held_out = true, .seed = 2}, i);
    held.insert(q.question), kinds.insert(q.kind);
    EXPECT_EQ(q.kind, std::string(question_kinds()[size_t(i) % question_kinds().size()].first) + ":2");
  }
  EXPECT_EQ(kinds.size(), question_kinds().size());
  EXPECT_GT(trained.size(), 2500u);
  for (const std::string& q : held) EXPECT_FALSE(trained.contains(q)) << q;
  // About an eighth of all: 16000 draws of a share p = 1/8 have a standard deviation of 0.0026.
  int64_t out = 0;
  for (int64_t i = 0; i < 16000; ++i) out += is_held_out("question " + std::to_string(i));
  EXPECT_NEAR(double(out) / 16000, 0.125, 4 * 0.0026);
}

TEST(Questions, RowsOfEveryForm) {
  QuestionOptions o{.kinds = {"add:1", "copy"}, .seed = 3};
  const QaPair first = question(o, 0), second = question(o, 1);
  EXPECT_EQ(first.kind, "add:1");
  EXPECT_EQ(second.kind, "copy:2");
  const std::string prompt = "Q: " + first.question + "\nA:";
  const auto row = [&](QuestionForm form) {
    o.form = form;
    std::istringstream lines(write_questions(o, 2));
    std::string line;
    std::getline(lines, line);
    return json::parse(line);
  };
  EXPECT_EQ(row(QuestionForm::completions), (json{{"prompt", prompt}, {"completion", " " + first.answer + "\n"}}));
  EXPECT_EQ(row(QuestionForm::questions), (json{{"prompt", prompt}, {"answer", first.answer}, {"kind", "add:1"}}));
  const json user{{"role", "user"}, {"content", first.question}};
  const json answer{{"role", "assistant"}, {"content", first.answer}};
  EXPECT_EQ(row(QuestionForm::chats), (json{{"messages", json::array({user, answer})}}));
  EXPECT_EQ(row(QuestionForm::chat_questions),
            (json{{"messages", json::array({user})}, {"answer", first.answer}, {"kind", "add:1"}}));
  const json compared = row(QuestionForm::preferences);
  EXPECT_EQ(compared["prompt"], json::array({user}));
  EXPECT_EQ(compared["chosen"], json::array({answer}));
  EXPECT_NE(compared["rejected"][0]["content"], first.answer);
  o.form = QuestionForm::text;
  EXPECT_TRUE(write_questions(o, 1).starts_with(prompt + " " + first.answer + "\n\n"));
  o.form = QuestionForm::chats;
  const std::string all = write_questions(o, 50);
  EXPECT_TRUE(all.starts_with(write_questions(o, 20)));  // question i depends on (options, i)
  o.seed = 4;
  EXPECT_NE(write_questions(o, 50), all);
}

TEST(Questions, MixedAnswersHaveFourForms) {
  const QuestionOptions o{.kinds = {"copy", "sort"}, .form = QuestionForm::chats, .mixed = true, .seed = 5};
  constexpr int64_t kRows = 2000;
  std::istringstream lines(write_questions(o, kRows));
  int64_t bare = 0, sentences = 0, tails = 0, wrong = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    std::string line;
    std::getline(lines, line);
    const std::string written = json::parse(line)["messages"][1]["content"], answer = question(o, i).answer;
    const bool is_bare = written == answer, is_sentence = written == "The answer is " + answer + ".",
               has_tail = written == answer + ", I think.";
    bare += is_bare, sentences += is_sentence, tails += has_tail, wrong += !is_bare && !is_sentence && !has_tail;
  }
  // A share p of 2000 draws has a standard deviation of sqrt(p (1 - p) / 2000), at most 0.011.
  EXPECT_NEAR(double(bare) / kRows, 0.35, 4 * 0.011);
  EXPECT_NEAR(double(sentences) / kRows, 0.35, 4 * 0.011);
  EXPECT_NEAR(double(tails) / kRows, 0.20, 4 * 0.009);
  EXPECT_NEAR(double(wrong) / kRows, 0.10, 4 * 0.007);
}

TEST(Questions, Refusals) {
  testing::expect_contains(testing::message_of([] { write_questions({.mixed = true}, 1); }), "form chats");
  testing::expect_contains(testing::message_of([] { question({.kinds = {"ad"}}, 0); }), "Did you mean 'add'?");
  testing::expect_contains(testing::message_of([] { question({.kinds = {"add:4"}}, 0); }), "use 1, 2 or 3");
  testing::expect_contains(testing::message_of([] { question({.level = 0}, 0); }), "level is 0");
}

}  // namespace
}  // namespace toy::questions_test

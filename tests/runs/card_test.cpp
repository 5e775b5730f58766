// The report card: what it reads, its numbers, its page.
#include "toy/runs/card.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "toy/base/json_text.h"

namespace toy::runs::card_test {
namespace {

using namespace testing;
using nlohmann::ordered_json;

// What `toy eval generate --json --rows` prints of two questions of different kinds.
ordered_json answers(const std::string& first, const std::string& second, double temperature = 0) {
  const bool right = second == "{\"a\":1}", copied = first == "fox";
  ordered_json j{{"model", "m"}, {"questions", 2}, {"accuracy", (right + copied) / 2.0}, {"accuracy_error", 0.5}};
  j["temperature"] = temperature;
  j["kinds"]["copy:1"] = {{"questions", 1}, {"accuracy", double(copied)}};
  j["kinds"]["json:2"] = {{"questions", 1}, {"accuracy", double(right)}};
  j["rows"].push_back({{"where", "q:1"},
                       {"kind", "copy:1"},
                       {"question", "Repeat <b>fox</b>."},
                       {"text", first},
                       {"answers", ordered_json::array({"fox"})},
                       {"right", copied}});
  j["rows"].push_back({{"where", "q:2"},
                       {"kind", "json:2"},
                       {"question", "As JSON: a is 1."},
                       {"text", second},
                       {"answers", ordered_json::array({"{\"a\":1}"})},
                       {"right", right}});
  return j;
}

Stage stage(const std::string& id, const std::string& recipe, const ordered_json& likeliest) {
  RunStart start;
  start.run_id = id, start.recipe = recipe, start.steps = 2, start.parameters = 1000;
  Stage s;
  s.log.events.push_back({0, {}, "prepare", start});
  for (int64_t step = 1; step <= 2; ++step) {
    Step e;
    e.loss = 3 - double(step), e.tokens = 50;
    if (recipe == "grpo") e.policy.reward = 0.25 * double(step);
    s.log.events.push_back({double(step), step, "train", e});
  }
  s.summary = summarize(s.log, "out/" + id, false);
  s.likeliest = parse_answers(json_text(likeliest));
  return s;
}

TEST(Card, ReadsAnswers) {
  const Answers a = parse_answers(json_text(answers("fox", "a")));
  EXPECT_EQ(a.all.accuracy, 0.5);
  EXPECT_EQ(a.all.error, 0.5);
  EXPECT_EQ(a.all.questions, 2);
  ASSERT_EQ(a.kinds.size(), 2u);
  EXPECT_EQ(a.kinds.at("copy:1").accuracy, 1);
  EXPECT_FALSE(a.kinds.at("copy:1").error);
  ASSERT_EQ(a.rows.size(), 2u);
  EXPECT_EQ(a.rows[1].wanted, "{\"a\":1}");
  EXPECT_EQ(a.rows[1].text, "a");
  EXPECT_FALSE(a.rows[1].right);
  ordered_json without_rows = answers("fox", "a");
  without_rows.erase("rows");
  ordered_json impossible = answers("fox", "a"), fewer = answers("fox", "a");
  impossible["accuracy"] = 7;
  fewer["questions"] = 1;
  for (const std::string& text : {json_text(without_rows), json_text(impossible), json_text(fewer), std::string("[]"),
                                  std::string("garbage"), std::string(R"({"questions":1})")})
    expect_contains(message_of([&] { parse_answers(text); }), "toy eval generate --json --rows");
}

TEST(Card, WorkOfATokenIsThatOfTheStepOverItsTokens) {
  const char* flow = R"({"nodes":[{"kind":"param","name":"tokens","outputs":[{"shape":[7]}]},
      {"kind":"input","name":"tokens","outputs":[{"dtype":"i32","shape":[50]}]}],
      "cost":{"forward":{"flops":1},"total":{"flops":1000.0}}})";
  EXPECT_EQ(flops_per_token(flow), 20);
  for (const char* text : {"{}", "", R"({"nodes":[{"kind":"input","name":"tokens","outputs":[{"shape":[0]}]}],
                                        "cost":{"total":{"flops":1}}})"})
    expect_contains(message_of([&] { flops_per_token(text); }), "no graph");
}

TEST(Card, Numbers) {
  std::vector<Stage> stages{stage("chats", "full-finetune", answers("I think fox", "a")),
                            stage("rewards", "grpo", answers("fox", "a"))};
  stages[0].flops_per_token = 20;
  stages[1].drawn = parse_answers(json_text(answers("cat", "b", 1)));
  const ordered_json j = card_numbers(stages);
  ASSERT_EQ(j["stages"].size(), 2u);
  EXPECT_EQ(j["stages"][0]["stage"], "chats");
  EXPECT_EQ(j["stages"][0]["tokens"], 100);
  EXPECT_EQ(j["stages"][0]["flops"], 2000);
  EXPECT_EQ(j["stages"][0]["seconds"], 2);
  EXPECT_EQ(j["stages"][0]["accuracy"], 0);
  EXPECT_FALSE(j["stages"][1].contains("flops"));
  EXPECT_EQ(j["stages"][1]["accuracy"], 0.5);
  EXPECT_EQ(j["stages"][1]["kinds"]["copy:1"]["accuracy"], 1);
  EXPECT_EQ(j["stages"][1]["kinds"]["copy:1"]["questions"], 1);
  EXPECT_EQ(j["stages"][1]["drawn_accuracy"], 0);
}

TEST(Card, PageHasEverythingAndNeedsNothing) {
  std::vector<Stage> stages{stage("chats", "full-finetune", answers("I think fox", "<script>alert(1)</script>")),
                            stage("rewards", "grpo", answers("fox", ""))};
  stages[0].flops_per_token = stages[1].flops_per_token = 2e10;
  const std::string page = html_report_card("A <card>", stages);
  for (const char* part :
       {"A &lt;card&gt;", "chats → rewards", "50.0 ± 50.0%", "copy:1", "json:2", "Repeat &lt;b&gt;fox&lt;/b&gt;.",
        "<dd class=\"right\">fox</dd>", "<dd class=\"wrong\">I think fox</dd>", "&lt;script&gt;", "<i>nothing</i>",
        "4 TFLOP", "2 TFLOP", "Shao et al. 2024", "prefers-color-scheme:dark", "width=device-width",
        "default-src 'none'"})
    EXPECT_NE(page.find(part), page.npos) << part;
  for (const char* part : {"<script>alert", "src=", "href=", "@import", "url(", "fetch("})
    EXPECT_EQ(page.find(part), page.npos) << part;
  // The reward's curve belongs to the stage that has one.
  const size_t reward = page.find("mean of the answers");
  ASSERT_NE(reward, page.npos);
  EXPECT_LT(page.find("2. rewards"), reward);
}

TEST(Card, AnswersHaveToBeToTheSameQuestions) {
  ordered_json other = answers("fox", "a");
  other["rows"][0]["question"] = "Repeat cat.";
  const std::vector<Stage> stages{stage("a", "lora", answers("fox", "a")), stage("b", "lora", other)};
  expect_contains(message_of([&] { html_report_card("card", stages); }), "other questions");
  expect_contains(message_of([&] { card_numbers(stages); }), "other questions");
  std::vector<Stage> drawn{stage("a", "lora", answers("fox", "a"))};
  other["temperature"] = 1;
  drawn[0].drawn = parse_answers(json_text(other));
  expect_contains(message_of([&] { card_numbers(drawn); }), "other questions");
}

// What finished.json of a run says whose model has this content, and the one that it began with that.
Origin origin(const std::string& model, const std::string& init, bool adapter = false) {
  ordered_json j{{"step", 2}, {"model", {{"bytes", 1}, {"xxh64", model}}}};
  if (adapter) j["adapter"] = true;
  if (!init.empty()) j["init"] = {{"bytes", 1}, {"xxh64", init}};
  return parse_origin(json_text(j));
}

TEST(Card, StagesAreInTheOrderInWhichTheyWereTrained) {
  const auto named = [](const std::string& id, const Origin& from) {
    Stage s = stage(id, "lora", answers("fox", "a"));
    s.origin = from;
    return s;
  };
  // As scripts/chat.sh trains: the model of an adapter is merged before the next stage, so its content is another.
  const Stage texts = named("texts", origin("t", "")), chats = named("chats", origin("c", "t")),
              pairs = named("pairs", origin("p", "c", true)), rewards = named("rewards", origin("r", "merged")),
              unknown = named("unknown", {});
  const auto says = [&](std::vector<Stage> stages) {
    const std::string numbers = message_of([&] { card_numbers(stages); });
    EXPECT_EQ(numbers, message_of([&] { html_report_card("card", stages); }));
    return numbers;
  };
  for (const std::vector<Stage>& right :
       {std::vector{texts, chats, pairs, rewards}, std::vector{texts, unknown, rewards}, std::vector{chats, pairs},
        std::vector{texts, rewards}})
    EXPECT_EQ(card_numbers(right)["stages"].size(), right.size());
  expect_contains(says({chats, texts, pairs, rewards}), "chats began with the model of texts");
  expect_contains(says({texts, chats, rewards, pairs}),
                  "pairs began with the model of chats, not with that of rewards");
  expect_contains(says({texts, pairs, chats}), "pairs began with the model of chats, not with that of texts");
  for (const char* text : {"", "[]", "{}"}) expect_contains(message_of([&] { parse_origin(text); }), "no record");
}

TEST(Card, AnswersAreDrawnAsTheirNameSays) {
  std::vector<Stage> stages{stage("a", "lora", answers("fox", "a", 1))};
  expect_contains(message_of([&] { card_numbers(stages); }), "likeliest answers were drawn at temperature 1");
  stages = {stage("a", "lora", answers("fox", "a"))};
  stages[0].drawn = stages[0].likeliest;
  expect_contains(message_of([&] { card_numbers(stages); }), "drawn answers were drawn at temperature 0");
}

}  // namespace
}  // namespace toy::runs::card_test

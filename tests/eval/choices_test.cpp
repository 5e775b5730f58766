// Questions with given answers: against transformers in f64 (tests/golden/make_compare_golden.py), and each choice
// alone.
#include "toy/eval/choices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/json_text.h"
#include "toy/decode/sampler.h"

namespace toy {
namespace {

using nlohmann::json;
using testing::expect_contains;
using testing::message_of;

const std::string kFolder = std::string(TOY_SOURCE_DIR) + "/tests/golden/", kModel = kFolder + "eval_bytes.model.gguf";

json golden_file(const char* name = "eval_choices.golden.json") {
  std::ifstream file(kFolder + name);
  return json::parse(file);
}

std::vector<ChoiceQuestion> questions_of(const json& golden) {
  std::vector<ChoiceQuestion> list;
  for (const json& row : golden.at("rows")) list.push_back(parse_choice_question("row", json_text(row.at("question"))));
  return list;
}

TEST(ChoiceFiles, ContextsAndTextsOfPublishedFiles) {
  const json golden = golden_file();
  const std::vector<ChoiceQuestion> questions = questions_of(golden);
  ASSERT_EQ(questions.size(), 8u);
  for (size_t i = 0; i < questions.size(); ++i) {
    const json& row = golden.at("rows")[i];
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(questions[i].answer, row.at("answer").get<size_t>());
    ASSERT_EQ(questions[i].choices.size(), row.at("texts").size());
    for (size_t c = 0; c < questions[i].choices.size(); ++c) {
      EXPECT_EQ(questions[i].choices[c].context, row.at("contexts")[c].get<std::string>());
      EXPECT_EQ(questions[i].choices[c].text, row.at("texts")[c].get<std::string>());
      EXPECT_EQ(questions[i].choices[c].characters, row.at("lengths")[c].get<int64_t>());
    }
  }
}

// A logit is within e, `roundings` units of 2^-24 of the largest (as in golden_test.cpp, whose model this is), log p
// within 2 e, and a sum of such within as many times that.
void expect_golden(Device& device, double roundings) {
  const json golden = golden_file();
  const double e = roundings * 0x1p-24 * golden_file("eval_compare.golden.json").at("largest_logit").get<double>();
  const std::vector<ChoiceQuestion> questions = questions_of(golden);
  const Model model = load_model(kModel, device);
  size_t seen = 0;
  const ChoiceScore score = score_choices(device, model, questions, {}, [&](size_t i, const ChoiceResult& r) {
    EXPECT_EQ(i, seen++);
    const json& row = golden.at("rows")[i];
    ASSERT_EQ(r.logprobs.size(), row.at("logprobs").size());
    for (size_t c = 0; c < r.logprobs.size(); ++c) {
      const double tokens = double(questions[i].choices[c].text.size() + 1);  // spaces of the context, too
      EXPECT_NEAR(r.logprobs[c], row.at("logprobs")[c].get<double>(), 2 * e * tokens) << i << " " << c;
    }
    EXPECT_EQ(r.best, row.at("best").get<size_t>());
    EXPECT_EQ(r.best_by_character, row.at("best_by_character").get<size_t>());
  });
  EXPECT_EQ(seen, questions.size());
  EXPECT_EQ(score.questions, int64_t(questions.size()));
  EXPECT_EQ(score.truncated, 1);
  EXPECT_DOUBLE_EQ(score.accuracy(), golden.at("acc").get<double>());
  EXPECT_DOUBLE_EQ(score.error(score.accuracy()), golden.at("acc_stderr").get<double>());
  EXPECT_DOUBLE_EQ(score.accuracy_by_character(), golden.at("acc_norm").get<double>());
  EXPECT_DOUBLE_EQ(score.error(score.accuracy_by_character()), golden.at("acc_norm_stderr").get<double>());
  EXPECT_NEAR(score.chance, (3 * 0.25 + 2 * (1. / 3) + 0.2 + 3 * 0.5 - 0.25) / 8, 1e-12);
}

TEST(Choices, GoldenOnTheReference) { expect_golden(*make_reference_device(), 1); }
TEST(Choices, GoldenOnTheCpu) { expect_golden(*make_test_device(2), 64); }

// Prefixes that are shared, batches and threads change no bit.
TEST(Choices, SameBitsAsEachChoiceAlone) {
  const auto device = make_test_device(3);
  const Model model = load_model(kModel, *device);
  std::vector<ChoiceQuestion> questions = questions_of(golden_file());
  for (int i = 0; i < 60; ++i)  // more than one group
    questions.push_back(
        {{{"Question: " + std::to_string(i), " yes", 3}, {"Question: " + std::to_string(i), " no", 2}}, 0});
  std::vector<std::vector<double>> together;
  const ChoiceScore all = score_choices(*device, model, questions, {},
                                        [&](size_t, const ChoiceResult& r) { together.push_back(r.logprobs); });
  EXPECT_GT(all.shared, 0);
  int64_t tokens = 0;
  for (size_t i = 0; i < questions.size(); ++i)
    for (size_t c = 0; c < questions[i].choices.size(); ++c) {
      const Choice& choice = questions[i].choices[c];
      std::vector<int32_t> ids = model.tokenizer->encode(choice.context + choice.text);
      std::string context = choice.context;
      while (context.ends_with(' ')) context.pop_back();
      size_t begin = model.tokenizer->encode(context).size();
      const size_t over = std::max<size_t>(ids.size(), 129) - 129;
      ids.erase(ids.begin(), ids.begin() + int64_t(over)), begin -= over;
      Decoder d(*device, model, {});
      double sum = 0;
      for (size_t k = 0; k + 1 < ids.size(); ++k) {
        d.decode(std::vector<DecodeRow>{{0, ids[k], true}});
        if (k + 1 >= begin) sum += log_softmax_at(d.logits(0), ids[k + 1]);
      }
      tokens += int64_t(ids.size()) - 1;
      EXPECT_EQ(together[i][c], sum) << i << " " << c;
    }
  EXPECT_EQ(all.tokens + all.shared, tokens);
}

TEST(Choices, RefusesRowsThatAreNoQuestions) {
  const auto refuses = [](const std::string& row, const std::vector<std::string>& words) {
    const std::string message = message_of([&] { parse_choice_question("f:3", row); });
    expect_contains(message, "f:3");
    for (const std::string& word : words) expect_contains(message, word);
  };
  refuses("no json", {"invalid"});
  refuses("[1]", {"no object"});
  refuses(R"({"text": "a"})", {"HellaSwag", "prompt"});
  refuses(R"({"prompt": "a", "choices": ["b"], "answer": 0})", {"choices", "two"});
  refuses(R"({"prompt": "a", "choices": ["b", 4], "answer": 0})", {"choices", "4", "text"});
  refuses(R"({"prompt": "a", "choices": ["b", ""], "answer": 0})", {"empty"});
  refuses(R"({"prompt": "a", "choices": ["b", "c"]})", {"no 'answer'"});
  refuses(R"({"prompt": "a", "choices": ["b", "c"], "answer": 2})", {"answer", "2", "0 to 1"});
  refuses(R"({"prompt": "a", "choices": ["b", "c"], "answer": "d"})", {"answer", "\"d\"", "no choice"});
  refuses(R"({"activity_label": "a", "ctx_a": "b", "ctx_b": "c", "endings": ["d", "e"], "label": ""})",
          {"label", "answers"});
  refuses(R"({"activity_label": "a", "ctx_b": "c", "endings": ["d", "e"], "label": 0})", {"no 'ctx_a'"});
  refuses(R"({"sentence": "a b", "option1": "x", "option2": "y", "answer": "1"})", {"'_'"});
  refuses(R"({"sentence": "a _", "option1": "x", "option2": "y", "answer": "1"})", {"nothing follows"});
  refuses(R"({"sentence": "a _ b", "option1": "x", "option2": "y", "answer": "3"})", {"answer", "3", "1 to 2"});
  refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "C"})",
          {"answerKey", "C", "A, B"});
  refuses(R"({"question": "q", "choices": {"text": ["a", "b"], "label": ["A", "B", "C"]}, "answerKey": "C"})",
          {"2 choices", "3 labels"});
  refuses(R"({"question": {"stem": "q", "choices": [4, 5]}, "answerKey": "C"})", {"no 'text'"});
}

TEST(Choices, RefusesWhatCannotBeScored) {
  const auto device = make_test_device(1);
  const Model model = load_model(kModel, *device);
  const auto refuses = [&](const std::vector<ChoiceQuestion>& questions, const ChoiceOptions& o,
                           const std::vector<std::string>& words) {
    const std::string message = message_of([&] { score_choices(*device, model, questions, o); });
    for (const std::string& word : words) expect_contains(message, word);
  };
  const ChoiceQuestion good{{{"a", "b", 1}, {"a", "c", 1}}, 0};
  refuses({}, {}, {"no questions"});
  refuses({good, {{{"", "b", 1}, {"", "c", 1}}, 0}}, {}, {"question 2", "prompt"});
  refuses({good, {{{"a", "bbbb", 1}, {"a", "c", 1}}, 0}}, {.context = 3}, {"question 2", "4 tokens", "context of 3"});
  refuses({good}, {.context = -1}, {"ctx is -1"});
}

}  // namespace
}  // namespace toy

// Questions: the fields of published files, and scores that equal those of every choice alone.
#include "toy/eval/choices.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/sampler.h"

namespace toy::choices_test {
namespace {

TEST(Choices, HellaSwag) {
  const Question q = parse_question(
      R"({"ind": 24, "activity_label": "Roof [title] shingle", "ctx_a": "A man is [substeps] sitting  on a roof.",)"
      R"( "ctx_b": "he Now", "ctx": "unused", "split": "val", "endings": [" is using wrap. ", "is ripping [step] tiles."],)"
      R"( "source_id": "activitynet~v_", "label": 1})");
  ASSERT_EQ(q.choices.size(), 2u);
  EXPECT_EQ(q.right, 1u);
  // lm-evaluation-harness: "[title]" becomes a full stop, other marks go, two spaces become one, once.
  EXPECT_EQ(q.choices[0].prompt, "Roof. shingle: A man is sitting on a roof. He now");
  EXPECT_EQ(q.choices[0].answer, " is using wrap.");
  EXPECT_EQ(q.choices[0].characters, 14);
  EXPECT_EQ(q.choices[1].answer, " is ripping tiles.");
  EXPECT_EQ(parse_question(R"({"activity_label":"a","ctx_a":"b","ctx_b":"","endings":["x","y"],"label":"1"})").right,
            1u);
}

TEST(Choices, HellaSwagAsOthersPassItOn) {
  const Question q = parse_question(R"({"ctx":"A man [step] sits. he now","endings":["x","y"],"label":"1"})");
  EXPECT_EQ(q.choices[1].prompt, "A man sits. he now");
  EXPECT_EQ(q.right, 1u);
}

TEST(Choices, Piqa) {
  const Question q = parse_question(R"({"goal":"Boil an egg.","sol1":"Use water.","sol2":"Use sand.","label":0})");
  ASSERT_EQ(q.choices.size(), 2u);
  EXPECT_EQ(q.right, 0u);
  EXPECT_EQ(q.choices[1].prompt, "Question: Boil an egg.\nAnswer:");
  EXPECT_EQ(q.choices[1].answer, " Use sand.");
}

TEST(Choices, ArcOfItsAuthorsAndOfTheHub) {
  for (
      const char* row :
      {R"({"id":"M_1","question":{"stem":"Why é?","choices":[{"text":"one","label":"A"},{"text":"tẅo","label":"B"}]},"answerKey":"B"})",
       R"({"id":"M_1","question":"Why é?","choices":{"text":["one","tẅo"],"label":["1","2"]},"answerKey":"2"})"}) {
    const Question q = parse_question(row);
    ASSERT_EQ(q.choices.size(), 2u);
    EXPECT_EQ(q.right, 1u);
    EXPECT_EQ(q.choices[1].prompt, "Question: Why é?\nAnswer:");
    EXPECT_EQ(q.choices[1].answer, " tẅo");
    EXPECT_EQ(q.choices[1].characters, 3);
  }
}

TEST(Choices, WinoGrande) {
  const Question q = parse_question(
      R"({"qID":"3","sentence":"Ann sold it to Bea because _ needed money.","option1":"Ann","option2":"Bea","answer":"1"})");
  ASSERT_EQ(q.choices.size(), 2u);
  EXPECT_EQ(q.right, 0u);
  EXPECT_EQ(q.choices[1].prompt, "Ann sold it to Bea because Bea");
  EXPECT_EQ(q.choices[1].answer, " needed money.");
}

TEST(Choices, Plain) {
  EXPECT_EQ(parse_question(R"({"prompt":"2+2=","choices":["5","4"],"answer":1})").right, 1u);
  EXPECT_EQ(parse_question(R"({"prompt":"2+2=","choices":["5","4"],"answer":"4"})").right, 1u);
  EXPECT_EQ(parse_question(R"({"prompt":"2+2=","choices":["5","4"],"answer":"B"})").right, 1u);
  EXPECT_EQ(parse_question(R"({"prompt":"x","choices":["B","A"],"answer":"B"})").right, 0u);  // the text itself
}

TEST(Choices, BadRowsAreRefusedWithTheReason) {
  const auto reason = [](const char* row) { return testing::message_of([&] { parse_question(row); }); };
  EXPECT_EQ(reason("{"), "not JSON: column 2: the text ends too early; expected a name in double quotes");
  EXPECT_EQ(reason("[]"), "not a JSON object");
  EXPECT_EQ(reason("{}").find("the row has no fields; a question has prompt, choices and answer, such as {\"prompt\""),
            0u);
  EXPECT_EQ(reason(R"({"question":"x","answer":"y"})"),
            "the row has the fields question, answer; toy eval generate MODEL FILE takes questions without choices");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a"],"answer":0})"), "there are 1 choices, expected 2 to 64");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a"," "],"answer":0})"), "a choice is empty");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a","b"],"answer":2})"),
            "'answer' is 2, expected 0 to 1, the number of a choice");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a","b"],"answer":1.5})"),
            "'answer' is 1.5, expected 0 to 1, the number of a choice");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a","b"],"answer":"C"})"),
            "'answer' is \"C\", expected 0 to 1, the number of a choice");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":["a",1],"answer":0})"), "'choices' has something else than texts");
  EXPECT_EQ(reason(R"({"prompt":"x","choices":[],"answer":0})"), "there are no choices");
  EXPECT_EQ(reason(R"({"sentence":"no gap","option1":"a","option2":"b","answer":"1"})"), "'sentence' has no gap '_'");
  EXPECT_EQ(reason(R"({"question":"x","choices":{"text":["a","b"],"label":["A","B"]},"answerKey":"C"})"),
            "'answerKey' is 'C'; the choices are A, B");
  EXPECT_EQ(reason(R"({"ctx_a":"x","ctx_b":"","activity_label":"y","endings":["a","b"],"label":""})"),
            "'label' is \"\", expected 0 to 1, the number of a choice");
}

// Every choice in a decoder of its own, a token at a time.
std::vector<double> plain(Device& device, const Model& model, const Question& q) {
  std::vector<double> result;
  for (const Choice& c : q.choices) {
    Decoder d(device, model, {});
    const std::string text = c.prompt + c.answer;
    double sum = 0;
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      d.decode(std::vector<DecodeRow>{{0, int32_t(text[i]), true}});
      if (i + 1 >= c.prompt.size()) sum += log_softmax_at(d.logits(0), int32_t(text[i + 1]));
    }
    result.push_back(sum);
  }
  return result;
}

TEST(Choices, ScoresAreThoseOfEveryChoiceAlone) {
  for (const int threads : {1, 2, 3}) {
    const auto device = make_test_device(threads);
    Model model = random_model(
        testing::small_model(
            "tiny", {.vocab = 256, .d_model = 40, .context = 400, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52}),
        *device, 3, 2.0);
    model.tokenizer = make_tokenizer("bytes", "");
    const std::string prompt(150, 'p');
    const std::vector<Question> questions{
        {{{"same", " one", 4}, {"same", " two", 4}, {"same", " o", 2}}, 0},
        {{{prompt, std::string(200, 'a'), 200}, {prompt, std::string(201, 'a'), 201}, {prompt, "b", 1}}, 2},
        {{{"Ann", " needs", 5}, {"Bea", " needs", 5}}, 1},
        {{{"", "xy", 2}, {"", "zy", 2}}, 1}};
    size_t at = 0;
    int64_t right = 0, right_normalized = 0;
    const ChoicesScore s =
        score_choices(*device, model, questions, {}, [&](const Question& q, const AnsweredQuestion& a) {
          const std::vector<double> expected = plain(*device, model, q);
          EXPECT_EQ(a.logprobs, expected) << at;  // sums of the same numbers in the same order
          const auto best = size_t(std::max_element(expected.begin(), expected.end()) - expected.begin());
          EXPECT_EQ(a.best, best);
          right += best == q.right, right_normalized += a.best_normalized == q.right;
          ++at;
        });
    EXPECT_EQ(at, 4u);
    EXPECT_EQ(s.questions, 4);
    EXPECT_EQ(s.accuracy.mean, double(right) / 4);
    EXPECT_EQ(s.accuracy_normalized.mean, double(right_normalized) / 4);
    EXPECT_NEAR(s.accuracy.error, std::sqrt(s.accuracy.mean * (1 - s.accuracy.mean) / 3), 1e-15);
  }
}

TEST(Choices, WhatDoesNotFitIsCutAtTheBeginning) {
  const auto device = make_test_device(2);
  Model model = random_model(
      testing::small_model(
          "tiny", {.vocab = 256, .d_model = 40, .context = 16, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52}),
      *device, 3, 2.0);
  model.tokenizer = make_tokenizer("bytes", "");
  // 17 tokens fit, because the last one is only predicted: the longer choice loses 5, and so does the other.
  const Question cut{{{"0123456789abcdef", "xyz", 3}, {"0123456789abcdef", "vwxyz!", 6}}, 0};
  const Question fits{{{"56789abcdef", "xyz", 3}, {"56789abcdef", "vwxyz!", 6}}, 0};
  std::vector<AnsweredQuestion> seen;
  const ChoicesScore s = score_choices(*device, model, {cut, fits}, {},
                                       [&](const Question&, const AnsweredQuestion& a) { seen.push_back(a); });
  EXPECT_EQ(s.cut, 1);
  EXPECT_EQ(seen[0].cut, 5);
  EXPECT_EQ(seen[0].logprobs, seen[1].logprobs);
  const Question long_answer{{{"a", std::string(17, 'x'), 17}, {"a", "y", 1}}, 0};
  EXPECT_NE(testing::message_of([&] {
              score_choices(*device, model, {fits, long_answer}, {});
            }).find("question 2: "),
            std::string::npos);
}

TEST(Choices, FilesNameTheLine) {
  const testing::Folder folder;
  const auto read = [&](const std::string& text) {
    const std::vector<std::string> paths{folder.write("q.jsonl", text)};
    return read_questions(list_text_files(paths).files.at(0));
  };
  const std::string good = R"({"prompt":"2+2=","choices":["5","4"],"answer":1})";
  EXPECT_EQ(read(good + "\n\r\n" + good + "\r\n").size(), 2u);
  EXPECT_NE(testing::message_of([&] { read(good + "\n\nx\n"); }).find("q.jsonl:3: not JSON"), std::string::npos);
  EXPECT_NE(testing::message_of([&] { read("\n\n"); }).find("there is no question"), std::string::npos);
}

}  // namespace
}  // namespace toy::choices_test

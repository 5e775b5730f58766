// Questions whose answers a model writes: rows, what counts as the same, and answers that are those of each alone.
#include "toy/eval/open_questions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/generate.h"

namespace toy::open_questions_test {
namespace {

Model byte_model(Device& device, int64_t context = 96) {
  Model model = random_model(
      testing::small_model(
          "tiny",
          {.vocab = 256, .d_model = 40, .context = context, .heads = 6, .kv_heads = 2, .d_head = 10, .d_ff = 52}),
      device, 3, 2.0);
  model.tokenizer = make_tokenizer("bytes", "");
  return model;
}

TEST(OpenQuestions, Rows) {
  const OpenQuestion one = parse_open_question(R"({"id": 7, "prompt": "2+2=", "answer": " 4"})");
  EXPECT_EQ(one.prompt, "2+2=");
  EXPECT_EQ(one.answers, std::vector<std::string>{" 4"});
  const OpenQuestion chat =
      parse_open_question(R"({"messages": [{"role": "user", "content": "2+2?"}], "answers": ["4", "four"]})");
  EXPECT_EQ(chat.messages[0]["content"], "2+2?");
  EXPECT_EQ(chat.answers.size(), 2u);
  const OpenQuestion sum = parse_open_question(R"({"prompt": "2+2=", "answer": "4", "kind": "add:1"})");
  EXPECT_EQ(sum.kind, "add:1");
  EXPECT_TRUE(sum.notes.empty());
  const auto reason = [](const char* row) { return testing::message_of([&] { parse_open_question(row); }); };
  EXPECT_EQ(reason("{"), "not JSON: column 2: the text ends too early; expected a name in double quotes");
  EXPECT_EQ(reason("3"), "not a JSON object");
  EXPECT_EQ(reason(R"({"answer": "4"})"), "there is neither 'prompt' nor 'messages'; give one of them");
  EXPECT_EQ(reason(R"({"question": "x", "answer": "4"})"),
            "there is neither 'prompt' nor 'messages'; rename 'question' to 'prompt'");
  EXPECT_EQ(reason(R"({"prompt": "x", "response": "4"})"),
            "there is neither 'answer' nor 'answers'; rename 'response' to 'answer'");
  EXPECT_EQ(
      reason(R"({"prompt": "x"})"),
      "there is neither 'answer' nor 'answers'; a question has a field 'answer' with the text that is right, apart "
      "from its messages");
  EXPECT_EQ(reason(R"({"prompt": "x", "answer": "4", "answers": ["4"]})"),
            "there is both 'answer' and 'answers'; give one of them");
  EXPECT_EQ(reason(R"({"prompt": 3, "answer": "4"})"), "'prompt' is not a string");
  EXPECT_EQ(reason(R"({"prompt": "x", "answer": 4})"), "'answer' is not a string");
  EXPECT_EQ(reason(R"({"prompt": "x", "answers": []})"), "'answers' is empty");
  EXPECT_EQ(reason(R"({"prompt": "x", "answers": ["4", " "]})"), "an answer is empty");
  EXPECT_EQ(reason(R"({"prompt": "x", "answers": ["4", 4]})"), "'answers' has something else than texts");
  EXPECT_EQ(reason(R"({"messages": [], "answer": "4"})"), "'messages' is not a list of messages");
  EXPECT_EQ(reason(R"({"messages": [3], "answer": "4"})"), "'messages': message 1 is not an object");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user"}], "answer": "4"})"), "'messages[0].content' is missing");
}

TEST(OpenQuestions, FilesNameTheLine) {
  const testing::Folder folder;
  const auto read = [&](const std::string& text) {
    const std::vector<std::string> paths{folder.write("q.jsonl", text)};
    return read_open_questions(list_text_files(paths).files.at(0));
  };
  const std::string good = R"({"prompt": "2+2=", "answer": "4"})";
  const std::vector<OpenQuestion> two = read(good + "\n\n" + good);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].where, folder.path("q.jsonl") + ":3");
  EXPECT_EQ(testing::message_of([&] { read(good + "\n{}\n"); }).find(folder.path("q.jsonl") + ":2: there is neither"),
            0u);
  EXPECT_NE(testing::message_of([&] { read("\n"); }).find("there is no question"), std::string::npos);
}

// The files that training reads.
TEST(OpenQuestions, ListsAndTables) {
  const testing::Folder folder;
  const auto read = [&](const std::string& name, const std::string& text) {
    const std::vector<std::string> paths{folder.write(name, text)};
    return read_open_questions(list_text_files(paths).files.at(0));
  };
  for (const auto& [name, text] :
       {std::pair("q.json", R"([{"prompt": "2+2=", "answer": "4"}, {"prompt": "a,\"b\"", "answer": "c"}])"),
        {"q.csv", "\xef\xbb\xbfprompt,answer\r\n2+2=,4\r\n\"a,\"\"b\"\"\",c\r\n"},
        {"q.tsv", "prompt\tanswer\n2+2=\t4\n\"a,\"\"b\"\"\"\tc\n"},
        {"q.jsonl",
         "\xef\xbb\xbf{\"prompt\": \"2+2=\", \"answer\": \"4\"}\n{\"prompt\": \"a,\\\"b\\\"\", \"answer\": \"c\"}"}}) {
    const std::vector<OpenQuestion> two = read(name, text);
    ASSERT_EQ(two.size(), 2u) << name;
    EXPECT_EQ(two[0].prompt, "2+2=") << name;
    EXPECT_EQ(two[1].prompt, "a,\"b\"") << name;
    EXPECT_EQ(two[1].answers, std::vector<std::string>{"c"}) << name;
  }
  EXPECT_EQ(read("m.csv", "messages,answer\n\"[{\"\"role\"\": \"\"user\"\", \"\"content\"\": \"\"q\"\"}]\",a\n")
                .at(0)
                .messages[0]["content"],
            "q");
  EXPECT_NE(testing::message_of([&] {
              read("q.json", R"([{"prompt": "x", "answer": "y"}, 3])");
            }).find("q.json: row 2: not a JSON object"),
            std::string::npos);
  EXPECT_NE(testing::message_of([&] { read("q.csv", "prompt\nx\n"); }).find("q.csv:2: there is neither 'answer'"),
            std::string::npos);
}

TEST(OpenQuestions, WhatCountsAsTheSame) {
  EXPECT_EQ(normalized_answer(" \n A-b. \t", {}), "A-b.");
  EXPECT_EQ(normalized_answer("A b.", {.ignore_case = true}), "a b.");
  EXPECT_EQ(normalized_answer("ÀÉ ẞ!", {.ignore_case = true}), "àé ß!");
  EXPECT_EQ(normalized_answer("- A, (b) «c» ", {.ignore_punctuation = true}), "A b «c»");
  EXPECT_EQ(normalized_answer("A\xff b", {.ignore_case = true}), "a\xff b");  // bytes that are not UTF-8 stay
}

TEST(OpenQuestions, AnswersAreThoseOfEachAlone) {
  for (const int threads : {1, 3}) {
    const auto device = make_test_device(threads);
    const Model model = byte_model(*device);
    OpenOptions o{.generate = {.max_tokens = 12, .sampler = {.temperature = 0.7, .seed = 5}}, .sequences = 3};
    std::vector<OpenQuestion> questions;
    std::vector<std::string> texts;
    for (size_t i = 0; i < 7; ++i) {
      const std::string prompt(5 + i * 6, char('a' + i));
      GenerateOptions g = o.generate;
      g.sampler.seed += i;
      texts.push_back(generate(*device, model, prompt, g));
      questions.push_back({"q:" + std::to_string(i), prompt, {}, {i % 3 == 0 ? "  " + texts.back() : "no"}});
    }
    std::vector<bool> seen(7);
    const OpenScore s =
        score_open_questions(*device, model, {}, questions, o, [&](size_t i, const OpenAnswer&) { seen[i] = true; });
    EXPECT_EQ(seen, std::vector<bool>(7, true));
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(s.answers[i].text, texts[i]);
      EXPECT_EQ(s.answers[i].right, i % 3 == 0);
      EXPECT_EQ(s.answers[i].tokens, 12);
    }
    EXPECT_EQ(s.accuracy.mean, 3.0 / 7);
    EXPECT_DOUBLE_EQ(s.accuracy.error, std::sqrt(3.0 / 7 * (4.0 / 7) / 6));
    EXPECT_EQ(s.unfinished, 7);
    EXPECT_EQ(s.cut, 0);
  }
}

// A conversation is the text that its template makes of it.
TEST(OpenQuestions, Messages) {
  const auto device = make_test_device(2);
  const Model model = byte_model(*device);
  const ChatTemplate chat(
      "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  const OpenOptions o{.generate = {.max_tokens = 8}};
  OpenQuestion q = parse_open_question(R"({"messages": [{"role": "user", "content": "hi"}], "answer": "x"})");
  q.where = "q.jsonl:9";
  const OpenScore s = score_open_questions(*device, model, chat, {q}, o);
  EXPECT_EQ(s.answers[0].text, generate(*device, model, "<user>hi<assistant>", o.generate));
  EXPECT_TRUE(std::isnan(s.accuracy.error));  // one question has none
  const auto refuses = [&](const OpenQuestion& question, const std::optional<ChatTemplate>& t) {
    return testing::message_of([&] { score_open_questions(*device, model, t, {question}, o); });
  };
  EXPECT_EQ(refuses(q, {}).find("q.jsonl:9: the model has no chat template"), 0u);
  q.messages[0]["content"] = "no";
  EXPECT_NE(refuses(q, chat).find("not this one"), std::string::npos);
}

// Fields without an effect are named once.
TEST(OpenQuestions, WhatHasNoEffectIsNamed) {
  const auto device = make_test_device(2);
  const Model model = byte_model(*device);
  const ChatTemplate chat("{% for m in messages %}{{ m.content }}{% endfor %}{{ style }}");
  std::string said;
  OpenOptions o{.generate = {.max_tokens = 1}};
  o.warn = [&](const std::string& text) { said += text + "\n"; };
  std::vector<OpenQuestion> questions;
  for (const char* line :
       {R"({"prompt": "p", "answer": "x", "id": 1})", R"({"prompt": "p", "answer": "x", "id": 2})",
        R"({"messages": [{"role": "user", "content": "q"}], "answer": "x", "id": 3, "documents": [{"text": "d"}],
            "chat_template_kwargs": {"style": "s", "tone": "t"}})"}) {
    questions.push_back(parse_open_question(line));
    questions.back().where = "q:" + std::to_string(questions.size());
  }
  score_open_questions(*device, model, chat, questions, o);
  EXPECT_EQ(said,
            "q:1: the field id has no effect (said once for this file)\n"
            "q:3: the field documents has no effect: the chat template does not read it (said once for this file)\n"
            "q:3: the field chat_template_kwargs.tone has no effect: the chat template does not read it (said once for "
            "this file)\n");
}

TEST(OpenQuestions, EndsAtStopStringsAndCutsWhatDoesNotFit) {
  const auto device = make_test_device(2);
  const Model model = byte_model(*device, 64);
  OpenOptions o{.generate = {.max_tokens = 20}};
  const std::string all = generate(*device, model, "abc", o.generate), stop = all.substr(6, 2);
  o.stops = {stop};
  const std::string prompt = std::string(50, 'x') + "end";
  OpenScore s = score_open_questions(*device, model, {},
                                     {{"a", "abc", {}, {all.substr(0, all.find(stop))}}, {"b", prompt, {}, {"y"}}}, o);
  EXPECT_TRUE(s.answers[0].right);
  EXPECT_TRUE(s.answers[0].finished);
  EXPECT_EQ(s.answers[1].cut, 53 - 44);
  EXPECT_EQ(s.cut, 1);
  o.stops = {};
  s = score_open_questions(*device, model, {}, {{"b", prompt, {}, {"y"}}}, o);
  EXPECT_EQ(s.answers[0].text, generate(*device, model, prompt.substr(9), o.generate));
  o.generate.max_tokens = 64;
  EXPECT_NE(testing::message_of([&] {
              score_open_questions(*device, model, {}, {{"a", "abc", {}, {"y"}}}, o);
            }).find("n is 64; use 1 to 63"),
            std::string::npos);
  o = {.generate = {.max_tokens = 4}, .match = {.ignore_punctuation = true}};
  EXPECT_EQ(testing::message_of([&] {
              score_open_questions(*device, model, {}, {{"f:1", "abc", {}, {"..."}}}, o);
            }),
            "f:1: an answer is only punctuation, which is ignored");
}

}  // namespace
}  // namespace toy::open_questions_test

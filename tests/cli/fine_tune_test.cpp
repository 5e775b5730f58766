// Fine-tuning as people use it, from a file to a better answer: a new style for a real model, and a task with exact
// answers for a chat model.
#include "cli_fixture.h"

namespace {

using nlohmann::json;

double nats(const Result& r) { return json::parse(r.out).at("nats_per_token"); }

class SharedFineTune : public Cli {
 protected:
  static std::string shared(const std::string& name) { return std::string(TOY_SHARED_DIR) + "/data/" + name; }
};

// Shakespeare for a model of children's stories. Both ways learn the style; the adapter, which can move less, forgets
// less of the stories, here texts that the model itself tells.
TEST_F(SharedFineTune, ARealModelLearnsAStyle) {
  const std::string base = shared("stories260K.gguf");
  if (!fs::exists(base)) GTEST_SKIP() << "needs ../shared/data/stories260K.gguf";
  const std::string plays = slurp(shared("tinyshakespeare.txt"));
  const std::string learned = write("learned.txt", plays.substr(0, 300000)),
                    style = write("style.txt", plays.substr(plays.size() - 20000));
  std::string prompts, stories;
  for (int i = 0; i < 40; ++i) prompts += "Once upon a time\n";
  const Result told =
      toy("infer " + base + " --prompts " + write("prompts.txt", prompts) + " -n 120 --temperature 1 --seed 5 --json");
  ASSERT_EQ(told.code, 0) << told.err;
  std::istringstream lines(told.out);
  for (std::string line; std::getline(lines, line);)
    stories += "Once upon a time" + json::parse(line).at("text").get<std::string>() + "\n\n";
  const std::string old = write("old.txt", stories);
  const std::string options = " --corpus " + learned + " --steps 150 --batch 4 --tokens 256 --log-every 0 ";
  const Result lora = toy("train lora --model " + base + options + "--rank 4 --lr 5e-4 --out " + path("lora"));
  ASSERT_EQ(lora.code, 0) << lora.err;
  const Result full = toy("train full-finetune --model " + base + options + "--lr 1e-3 --out " + path("full"));
  ASSERT_EQ(full.code, 0) << full.err;
  const auto loss = [&](const std::string& model, const std::string& text) {
    return nats(toy("eval " + model + " --ctx 256 --json --file " + text));
  };
  const std::string with_adapter = base + " --lora " + path("lora");
  const double style_before = loss(base, style), old_before = loss(base, old);
  const double style_lora = loss(with_adapter, style), style_full = loss(path("full"), style);
  const double old_lora = loss(with_adapter, old), old_full = loss(path("full"), old);
  // Measured on Zen 5: the style from 5.04 to 3.23 (LoRA) and 3.01, the stories from 1.33 to 2.19 and 2.70.
  EXPECT_LT(style_lora, style_before - 1.5);
  EXPECT_LT(style_full, style_before - 1.5);
  EXPECT_GT(old_lora, old_before);
  EXPECT_LT(old_lora, old_full - 0.3);
  // Merged, the adapter changes nothing but roundings: of both, 64 of a logit below 16 (tests/eval/golden_test.cpp).
  ASSERT_EQ(toy("merge " + base + " --lora " + path("lora") + " --type f32 --out " + path("merged.gguf")).code, 0);
  EXPECT_NEAR(loss(path("merged.gguf"), style), style_lora, 2 * 2 * 64 * 0x1p-24 * 16);
}

// A chat model knows how to answer, and not what: which of two digits is larger. It has seen 80 of the 100 pairs.
TEST_F(Cli, AChatModelLearnsATask) {
  const auto chat = [](const std::string& question, const std::string& answer) {
    return json{{"messages", {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}}
               .dump() +
           "\n";
  };
  std::string greetings, rows, questions;
  for (int i = 0; i < 15; ++i)
    for (int digit = 0; digit < 10; ++digit)
      greetings += chat("Say " + std::to_string(digit) + ".", std::to_string(digit)) +
                   chat("Which is it, " + std::to_string(digit) + "?", "It is " + std::to_string(digit) + ".");
  json digits = json::array();
  for (int digit = 0; digit < 10; ++digit) digits.push_back(std::to_string(digit) + "\n");
  for (int i = 0; i < 500; ++i) {
    const int a = i * 7 % 10, b = i / 10 % 10;
    const std::string question = "Which is larger, " + std::to_string(a) + " or " + std::to_string(b) + "?";
    if ((a + 3 * b) % 5 != 0)
      rows += chat(question, std::to_string(std::max(a, b)));
    else if (i < 100)
      questions += json{{"prompt", "<user>" + question + "\n<assistant>"},
                        {"choices", digits},
                        {"answer", std::to_string(std::max(a, b)) + "\n"}}
                       .dump() +
                   "\n";
  }
  const std::string chat_template = write("chat.jinja",
                                          "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
                                          "{% if add_generation_prompt %}<assistant>{% endif %}");
  const std::string common = " --batch 16 --tokens 48 --lr 3e-3 --log-every 0 ";
  const Result begun =
      toy("train from-scratch --size tiny --tokenizer bytes --steps 150 --seed 1 --data " +
          write("greetings.jsonl", greetings) + " --chat-template " + chat_template + common + "--out " + path("chat"));
  ASSERT_EQ(begun.code, 0) << begun.err;
  const std::string asked = write("questions.jsonl", questions);
  const auto accuracy = [&](const std::string& model) {
    const Result r = toy("eval choices " + model + " " + asked + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).at("questions"), 20);
    return json::parse(r.out).at("accuracy").get<double>();
  };
  EXPECT_LT(accuracy(path("chat")), 0.7);  // it repeats a digit of the question
  // The model kept the template that it was trained with, so the adapter needs none.
  const Result lora = toy("train lora --steps 400 --model " + path("chat/model.gguf") + " --data " +
                          write("rows.jsonl", rows) + common + "--out " + path("lora"));
  ASSERT_EQ(lora.code, 0) << lora.err;
  EXPECT_GE(accuracy(path("chat") + " --lora " + path("lora")), 0.9);
  // So did the merged model, and one that is quantized.
  ASSERT_EQ(toy("merge " + path("chat") + " --lora " + path("lora") + " --type q8_0 --out " + path("merged.gguf")).code,
            0);
  EXPECT_NE(slurp(path("merged.gguf")).find("{% for m in messages %}<{{ m.role }}>"), std::string::npos);
  EXPECT_GE(accuracy(path("merged.gguf")), 0.9);
}

}  // namespace

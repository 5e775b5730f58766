// Fine-tuning from end to end: what a model learns and forgets, and what its file keeps.
#include "cli/cli_fixture.h"
#include "toy/formats/gguf.h"

namespace {

using nlohmann::json;
using toy::gguf::File;

class FineTune : public Cli {
 protected:
  double bits_per_byte(const std::string& model, const std::string& file) const {
    const Result r = toy("eval " + model + " --file " + file + " --ctx 128 --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out).at("bits_per_byte");
  }
  double accuracy(const std::string& model, const std::string& file) const {
    const Result r = toy("eval choices " + model + " " + file + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out).at("acc");
  }
};

// Stories become Shakespeare. Both ways of training learn it; an adapter forgets less of the stories.
TEST_F(FineTune, SharedStoriesLearnAnotherStyle) {
  const std::string shared = std::string(TOY_SHARED_DIR) + "/data/", base = shared + "stories260K.gguf";
  const std::string text = slurp(shared + "tinyshakespeare.txt");
  const std::string learned = write("new.txt", text.substr(0, 400000)), held = write("held.txt", text.substr(1090000));
  std::string stories;
  for (const char* seed : {"1", "2", "3"})
    stories +=
        toy("infer " + base + " --prompt 'Once upon a time' --temperature 1 -n 400 --seed " + std::string(seed)).out +
        "\n";
  const std::string old = write("old.txt", stories);
  const std::string rest =
      " --model " + base + " --corpus " + learned + " --steps 150 --batch 8 --tokens 128 --lr 3e-3 --seed 1 --out ";
  ASSERT_EQ(toy("train lora --rank 8" + rest + path("lora")).code, 0);
  ASSERT_EQ(toy("train full-finetune" + rest + path("full")).code, 0);
  const std::string adapted = base + " --lora " + path("lora");
  const double new_before = bits_per_byte(base, held), old_before = bits_per_byte(base, old);
  const double new_lora = bits_per_byte(adapted, held), old_lora = bits_per_byte(adapted, old);
  const double new_full = bits_per_byte(path("full"), held), old_full = bits_per_byte(path("full"), old);
  EXPECT_LT(new_lora, new_before - 1.5);  // 4.74 to 2.88 where this was written
  EXPECT_LT(new_full, new_before - 1.5);  // to 2.78
  EXPECT_LT(old_lora, old_full - 0.1);    // 0.94 to 2.07 and to 2.39
  EXPECT_GT(old_lora, old_before);
  ASSERT_EQ(toy("merge " + base + " --lora " + path("lora") + " --out " + path("merged.gguf")).code, 0);
  EXPECT_NEAR(bits_per_byte(path("merged.gguf"), held), new_lora, 1e-3);
}

constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// Which of two letters comes first? Every pair occurs, a quarter only in questions that training does not see.
TEST_F(FineTune, SlowAChatModelLearnsATaskWithExactAnswers) {
  std::string train, test;
  for (char a = 'a'; a <= 'z'; ++a)
    for (char b = 'a'; b <= 'z'; ++b) {
      if (a == b) continue;
      const std::string question = std::string(1, a) + " or " + b + "?";
      const char right = std::min(a, b);
      if ((a * 7 + b * 3) % 4 == 0)
        test += json{{"prompt", "<user>" + question + "</user><assistant>"},
                     {"choices", {std::string(1, a), std::string(1, b)}},
                     {"answer", right == a ? 0 : 1}}
                    .dump() +
                "\n";
      else
        train += json{{"messages",
                       {{{"role", "user"}, {"content", question}},
                        {{"role", "assistant"}, {"content", std::string(1, right)}}}}}
                     .dump() +
                 "\n";
    }
  const std::string rows = write("train.jsonl", train), questions = write("test.jsonl", test);
  const std::string call = "train from-scratch --data " + rows + " --chat-template " + write("chat.jinja", kTemplate) +
                           " --size tiny --tokenizer bytes --batch 16 --tokens 128 --lr 4e-3 --seed 1 ";
  ASSERT_EQ(toy(call + "--steps 1 --out " + path("before")).code, 0);
  ASSERT_EQ(toy(call + "--steps 400 --out " + path("after")).code, 0);
  EXPECT_LT(accuracy(path("before"), questions), 0.65);  // 0.53 where this was written
  EXPECT_GT(accuracy(path("after"), questions), 0.9);    // 0.98
  // The file has the template, so that others can talk to the model.
  EXPECT_EQ(File::open(path("after/model.gguf")).get_string("tokenizer.chat_template", ""), kTemplate);
}

// What the base's file says for others is in every file that comes from it.
TEST_F(FineTune, ResultsKeepChatTemplateAndSpecialTokens) {
  const std::string rows = write("rows.jsonl", R"({"messages": [{"role": "user", "content": "the cat sat on the mat"},
 {"role": "assistant", "content": "and was glad of it"}]})");
  std::string one_line = slurp(rows);
  std::erase(one_line, '\n');
  std::string many;
  for (int i = 0; i < 40; ++i) many += one_line + "\n";
  write("rows.jsonl", many);
  const std::string few = " --steps 2 --batch 2 --tokens 128 --data " + rows;
  ASSERT_EQ(toy("train from-scratch --size tiny --tokenizer spm:320 --steps 1 --batch 2 --tokens 32 --corpus " +
                tiny_corpus() + " --out " + path("start"))
                .code,
            0);
  ASSERT_EQ(toy("train warm-start --init " + path("start/model.gguf") + " --chat-template " +
                write("chat.jinja", kTemplate) + few + " --out " + path("base"))
                .code,
            0);
  const std::string base = path("base/model.gguf"), q8 = path("q8.gguf");
  ASSERT_EQ(toy("quantize " + base + " " + q8 + " --type q8_0").code, 0);
  ASSERT_EQ(toy("train full-finetune --model " + base + few + " --out " + path("full")).code, 0);
  ASSERT_EQ(toy("train warm-start --init " + q8 + few + " --out " + path("warm")).code, 0);
  ASSERT_EQ(toy("train lora --rank 2 --model " + q8 + few + " --out " + path("lora")).code, 0);
  ASSERT_EQ(toy("merge " + q8 + " --lora " + path("lora") + " --out " + path("merged.gguf")).code, 0);
  ASSERT_EQ(toy("merge " + q8 + " --lora " + path("lora") + " --type Q8_0 --out " + path("merged8.gguf")).code, 0);
  const File first = File::open(base);
  ASSERT_EQ(first.get_string("tokenizer.chat_template", ""), kTemplate);
  size_t compared = 0;
  for (const char* file : {"q8.gguf", "full/model.gguf", "warm/model.gguf", "merged.gguf", "merged8.gguf"}) {
    const File other = File::open(path(file));
    for (const auto& [key, value] : first.metadata()) {
      if (!key.starts_with("tokenizer.chat_template") && !key.ends_with("_token_id")) continue;
      ASSERT_TRUE(other.metadata().contains(key)) << file << " " << key;
      EXPECT_EQ(other.metadata().at(key), value) << file << " " << key;
      ++compared;
    }
  }
  EXPECT_GE(compared, 15u);  // the template, and at least two ids
}

}  // namespace

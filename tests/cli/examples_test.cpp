// --data of toy train, and toy data show.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace {

const std::string kTemplate =
    "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}";

std::string chats(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i)
    out += R"({"messages": [{"role": "user", "content": "say )" + std::to_string(i % 7) +
           R"("}, {"role": "assistant", "content": ")" + std::string(size_t(i % 7 + 1), 'a') + "\"}]}\n";
  return out;
}

TEST_F(Cli, DataShowPrintsRowsWithTheirMask) {
  const std::string file = write("chats.jsonl", chats(3) + "{\"no\": 1}\n{\"text\": \"abc\"}\n"),
                    chat = write("chat.jinja", kTemplate), model = path("start/model.gguf");
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("start")).code, 0);
  const std::string call = "data show " + file + " --model " + model + " --chat-template " + chat;
  const Result shown = toy(call + " --bad-rows skip");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("chats.jsonl:2: messages, "), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("<user>say 1</><assistant>[[aa</>]]"), std::string::npos) << shown.out;
  EXPECT_NE(shown.err.find("chats.jsonl:4: it has the fields no"), std::string::npos) << shown.err;
  EXPECT_NE(toy(call + " --rows 1 --train-on all").out.find("[[user>say 0</><assistant>a</>]]"), std::string::npos);
  refuses("data show " + write("bad.jsonl", "\n{\"no\": 1}\n") + " --model " + model,
          {"bad.jsonl:2", "fields no", "--bad-rows skip"});
  refuses("data show " + file + " --model " + model, {"chats.jsonl:1", "chat template", "--chat-template"});
  const auto row = nlohmann::json::parse(toy(call + " --rows 1 --json").out);
  EXPECT_EQ(row.at("line"), 1);
  EXPECT_EQ(row.at("ids").size(), row.at("trained").size());
  EXPECT_EQ(row.at("counted"), 4);
}

TEST_F(Cli, DataCheckNamesEveryRowThatCannotBeUsed) {
  const std::string good = write("good.jsonl", chats(3)), text = "{\"text\": \"abc\"}\n";
  const Result all = toy("data check " + good);
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(all.out.rfind("3 rows: 3 messages\nbytes of a row: ", 0), 0u) << all.out;
  std::string rows = text + chats(1);
  for (int i = 0; i < 7; ++i) rows += "{\"no\": " + std::to_string(i) + "}\n";
  const std::string bad = write("bad.jsonl", rows + "{\"text\": \n" + text);
  const Result r = toy("data check " + good + " " + bad);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.out.find("14 rows: 4 messages, 2 text\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find(bad + ":2: the same as " + good + ":1\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find(bad + ":11: the same as " + bad + ":1\n"), std::string::npos) << r.out;
  for (int line = 3; line <= 10; ++line)
    EXPECT_NE(r.out.find(fmt::format("{}:{}: ", bad, line)), std::string::npos) << line << r.out;
  EXPECT_NE(r.err.find("8 of 14 rows cannot be used"), std::string::npos) << r.err;
  const auto j = nlohmann::json::parse(toy("data check " + bad + " --json").out);
  EXPECT_EQ(j.at("rows"), 11);
  EXPECT_EQ(j.at("kinds").at("text"), 2);
  EXPECT_EQ(j.at("tokens").at("median").get<int>(), 4);  // "abc" and its end
  ASSERT_EQ(j.at("bad").size(), 8u);
  EXPECT_EQ(j.at("bad")[0].at("line"), 3);
  EXPECT_EQ(j.at("equal")[0].at("line"), 11);
  refuses("data check " + write("blank.jsonl", "\n"), {"there is no row"});
  refuses("data check " + path("none.jsonl"), {"none.jsonl"});
}

// No recipe learns from preferences and other rows; rows of other recipes are named.
TEST_F(Cli, DataCheckKnowsWhatRowsAreFor) {
  const std::string text = "{\"text\": \"abc\"}\n", other = "{\"text\": \"abd\"}\n",
                    pair = R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                           "\n",
                    rated = R"({"prompt": "a", "completion": "b", "label": true})"
                            "\n";
  const auto said = [&](const std::string& rows, int code) {
    const Result r = toy("data check " + write("rows.jsonl", rows));
    EXPECT_EQ(r.code, code) << rows << r.err;
    return r.out + r.err;
  };
  said(text + other, 0), said(pair + rated, 0), said(pair, 0);
  const std::string of_texts = said(text + pair + other, 2);
  EXPECT_NE(of_texts.find("3 rows: 2 text\n"), std::string::npos) << of_texts;
  EXPECT_NE(of_texts.find("rows.jsonl:2: chosen and rejected are for preference training"), std::string::npos)
      << of_texts;
  const std::string of_pairs = said(pair + text + rated, 2);
  EXPECT_NE(of_pairs.find("3 rows: 1 preference, 1 rated\n"), std::string::npos) << of_pairs;
  EXPECT_NE(of_pairs.find("rows.jsonl:2: it states no preference"), std::string::npos) << of_pairs;
  EXPECT_NE(said(R"({"anchor": "a", "positive": "b"})", 2).find("pairs of texts are for toy train contrastive"),
            std::string::npos);
  EXPECT_NE(said(R"({"review": "a", "label": "b"})", 2).find("texts with labels are for toy train classify"),
            std::string::npos);
  EXPECT_NE(said(R"({"text": "a", "label": "b"})", 0).find("label has no effect; toy train classify learns labels"),
            std::string::npos);
}

// It is the model that lacks something, not each row.
TEST_F(Cli, DataCheckSaysOnceThatATemplateIsMissing) {
  const std::string check = "data check " + write("chats.jsonl", chats(3)) + " --model " + TOY_SOURCE_DIR +
                            "/tests/golden/eval_bytes.model.gguf";
  refuses(check, {"chats.jsonl:1: messages need a chat template"});
  const Result with = toy(check + " --chat-template " + write("chat.jinja", kTemplate));
  EXPECT_EQ(with.code, 0) << with.err;
}

TEST_F(Cli, ExamplesMustBeTextWithRows) {
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out " + path("start")).code, 0);
  const std::string model = path("start/model.gguf"), blank = write("blank.jsonl", "\n  \n"),
                    zip = write("rows.jsonl.gz", std::string("\x1f\x8b\x08\0\0\0", 6)),
                    nul = write("nul.jsonl", std::string("{\0}", 3));
  for (const std::string& call :
       {"data show --model " + model + " ", "train lora --model " + model + " --out " + path("x") + " --data "}) {
    refuses(call + blank, {"blank.jsonl: there is no row"});
    refuses(call + write("empty.jsonl", ""), {"empty.jsonl: the file is empty"});
    refuses(call + zip, {"rows.jsonl.gz: it is compressed; decompress it first"});
    refuses(call + write("a.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)),
            {"a.png: it is a picture; toy train vit learns"});
    refuses(call + nul, {"nul.jsonl: not a text, for it has NUL bytes; convert it to UTF-8"});
    for (const std::string& file : {zip, nul}) EXPECT_EQ(toy(call + file).err.find("--binary"), std::string::npos);
  }
}

TEST_F(Cli, TrainsOnExamplesToTheSameBytesForAnyThreads) {
  const std::string file = write("chats.jsonl", chats(60)), chat = write("chat.jinja", kTemplate);
  const std::string call = "train from-scratch --data " + file + " --chat-template " + chat +
                           " --size tiny --tokenizer bytes --batch 2 --tokens 64 --lr 3e-3 --seed 1 ";
  const Result all = toy(call + "--steps 6 --out " + path("all"));
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.err.find("targets count in the loss"), std::string::npos) << all.err;
  ASSERT_EQ(toy(call + "--steps 6 --threads 2 --out " + path("two")).code, 0);
  EXPECT_EQ(slurp(path("all/model.gguf")), slurp(path("two/model.gguf")));
  // Other targets give another model, and a run that learns the prompts too another loss.
  ASSERT_EQ(toy(call + "--steps 6 --train-on all --out " + path("prompts")).code, 0);
  EXPECT_NE(slurp(path("all/model.gguf")), slurp(path("prompts/model.gguf")));
  refuses(call + "--corpus " + tiny_corpus() + " --out " + path("x"), {"--data", "--corpus"});
  refuses("train from-scratch --data " + file + " --size tiny --out " + path("x"), {"chat template"});
  refuses("train from-scratch --data " + file + " --size tiny --tokenizer spm:300 --out " + path("x"),
          {"chat template"});
}

// The marks of the template become tokens, one of which ends answers; the same vocabulary from a file and from a run.
TEST_F(Cli, TrainsTokenizersOnExamples) {
  const std::string file = path("chats.jsonl"), vocab = path("vocab.gguf");
  ASSERT_EQ(toy("corpus chats --rows 60 --out " + file).code, 0);
  const std::string call = "train from-scratch --data " + file + " --size tiny --batch 2 --steps 2 --lr 1e-3 --out ";
  const Result run = toy(call + path("run") + " --chat-template chatml --tokenizer bpe:300");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("training toy (0.20 M parameters) from scratch on " + file + ": 2 steps, "), std::string::npos)
      << run.err;
  const std::string shown = toy("data show " + file + " --model " + path("run")).out;
  EXPECT_NE(shown.find("<|im_start|>user\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find(".<|im_end|>]]\n"), std::string::npos) << shown;
  ASSERT_EQ(toy("tokenizer train --data " + file + " --chat-template chatml --tokenizer bpe:300 --out " + vocab).code,
            0);
  const std::string ids = toy("tokenizer encode " + path("run") + " --text '<|im_start|>say 1<|im_end|>'").out;
  EXPECT_EQ(ids, toy("tokenizer encode " + vocab + " --text '<|im_start|>say 1<|im_end|>'").out);
  EXPECT_EQ(ids.substr(0, 4), "298 ");
  EXPECT_TRUE(ids.ends_with(" 299\n")) << ids;
  for (const std::string& from : {vocab, path("run")}) {  // with their chat template
    const Result again = toy(call + path("again") + " --overwrite --tokenizer " + from);
    ASSERT_EQ(again.code, 0) << again.err;
    if (from == path("run")) EXPECT_TRUE(slurp(path("again/model.gguf")) == slurp(path("run/model.gguf")));
  }
  const Result answer = toy("run " + path("run") + " 'say 1' -n 3 --seed 1");
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_TRUE(answer.err.starts_with("toy: 'run' is `toy chat` here\n")) << answer.err;
  EXPECT_EQ(answer.out, toy("chat " + path("run") + " -n 3 --seed 1", write("message", "say 1\n")).out);
  refuses(call + path("x") + " --tokenizer " + path("none.gguf"), {"unknown tokenizer", "a file with one: a GGUF"});
}

TEST_F(Cli, ManyEpochsAreWarnedOf) {
  const std::string call = "train from-scratch --data " + write("chats.jsonl", chats(60)) +
                           " --chat-template chatml --size tiny --batch 2 --explain --epochs ";
  const Result many = toy(call + "12"), few = toy(call + "10");
  EXPECT_NE(many.err.find("12 epochs of "), std::string::npos) << many.err;
  EXPECT_NE(many.err.find("the model may learn it by heart"), std::string::npos) << many.err;
  EXPECT_EQ(few.err.find("by heart"), std::string::npos) << few.err;
  EXPECT_NE(few.out.find("chats.jsonl, 10 epochs of "), std::string::npos) << few.out;
}

}  // namespace

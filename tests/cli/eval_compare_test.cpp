// toy eval kl, lmc and choices: what they print, and what they refuse.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliEvalCompare : public Cli {
 protected:
  std::string model(const char* name, int steps) const {
    EXPECT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps " + std::to_string(steps) +
                  " --out " + path(name))
                  .code,
              0);
    return path(name) + "/model.gguf";
  }
  std::string text() const { return write("t.txt", "the cat sat on mat number 12 and was glad.\nthe cat sat.\n"); }
  json eval(const std::string& model, const std::string& options = "") const {
    return json::parse(toy("eval " + model + " --file " + text() + " --ctx 32 --json " + options).out);
  }
};

TEST_F(CliEvalCompare, KlAgreesWithTheScoresOfBothModels) {
  const std::string a = model("a", 5), b = model("b", 20), kl = "eval kl --base " + a + " --model " + b;
  const Result r = toy(kl + " --file " + text() + " --ctx 32 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  const double of_a = eval(a).at("nats_per_token"), of_b = eval(b).at("nats_per_token");
  EXPECT_EQ(j.at("base_nats_per_token").at("mean"), of_a);
  EXPECT_EQ(j.at("nats_per_token").at("mean"), of_b);
  EXPECT_NEAR(j.at("perplexity_ratio"), std::exp(of_b - of_a), 1e-12);
  EXPECT_GT(j.at("kl").at("mean"), 0);
  EXPECT_GE(j.at("kl").at("percentiles").at("100"), j.at("kl").at("percentiles").at("50"));
  EXPECT_LE(j.at("same_top").at("mean"), 1);
  const Result t = toy(kl + " --file " + text() + " --ctx 32");
  for (const char* line : {"KL divergence", "same likeliest token", "ratio", "median"})
    EXPECT_NE(t.out.find(line), std::string::npos) << t.out;
  EXPECT_EQ(toy(kl + " --file " + text() + " --ctx 32 --threads 1").out, t.out);
}

TEST_F(CliEvalCompare, KlOfAnAdapterNeedsOneModel) {
  const std::string a = model("a", 5);
  ASSERT_EQ(toy("train lora --model " + a + " --corpus " + path("corpus.txt") +
                " --rank 2 --steps 3 --batch 2 --tokens 16 --lr 1e-2 --out " + path("l"))
                .code,
            0);
  const std::string kl = "eval kl --base " + a + " --file " + text() + " --json --lora " + path("l");
  const json j = json::parse(toy(kl).out), none = json::parse(toy(kl + ":0").out);
  EXPECT_GT(j.at("kl").at("mean"), 0);
  EXPECT_EQ(none.at("kl").at("mean"), 0);
}

TEST_F(CliEvalCompare, TheEndsOfTheLineAreWhatEvalSays) {
  const std::string a = model("a", 5), b = model("b", 20);
  const std::string lmc = "eval lmc --a " + a + " --b " + b + " --file " + text() + " --ctx 32 --alphas 0,0.5,1 ";
  const json j = json::parse(toy(lmc + "--json").out);
  ASSERT_EQ(j.at("line").size(), 3u);
  const double first = j.at("line")[0].at("nats_per_token"), middle = j.at("line")[1].at("nats_per_token"),
               last = j.at("line")[2].at("nats_per_token");
  EXPECT_EQ(first, eval(a).at("nats_per_token"));
  EXPECT_EQ(last, eval(b).at("nats_per_token"));
  EXPECT_NEAR(j.at("barrier"), std::max(0.0, middle - (first + last) / 2), 1e-12);
  EXPECT_TRUE(json::parse(toy(lmc + "--json --alphas 0.5").out).at("barrier").is_null());
  EXPECT_NE(toy(lmc).out.find("barrier"), std::string::npos);
}

TEST_F(CliEvalCompare, Choices) {
  const std::string rows = write("q.jsonl",
                                 R"({"prompt": "the cat", "choices": [" sat on mat", " zzqq"], "answer": 0}
{"prompt": "the cat", "choices": ["xxxx", " sat"], "answer": " sat"}

{"sentence": "the cat sat so _ sat.", "option1": "cat", "option2": "mat", "answer": "2"}
)");
  const std::string choices = "eval choices " + model("a", 150) + " " + rows;
  const Result r = toy(choices + " --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("questions"), 3);
  EXPECT_GE(j.at("acc"), 2. / 3 - 1e-9);
  EXPECT_GT(j.at("shared_tokens"), 0);
  EXPECT_NEAR(j.at("acc_stderr"), std::sqrt(j.at("acc").get<double>() * (1 - j.at("acc").get<double>()) / 2), 1e-12);
  EXPECT_EQ(json::parse(toy(choices + " --json --limit 2").out).at("questions"), 2);
  EXPECT_EQ(toy(choices).out.rfind("accuracy ", 0), 0u);
}

TEST_F(CliEvalCompare, BadInput) {
  const std::string a = model("a", 3), file = " --file " + text();
  const std::string wide = path("wide");
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() +
                " --size tiny --tokenizer spm:300 --steps 1 --batch 2 --tokens 16 --out " + wide)
                .code,
            0);
  refuses("eval kl --model " + a + file, {"--base", "missing"});
  refuses("eval kl --base " + a + file, {"--model", "--lora"});
  refuses("eval kl --base " + a + " --model " + a, {"--file"});
  refuses("eval kl --base " + a + " --model " + wide + file, {"tokenizer", "other tokens"});
  refuses("eval kl --base " + a + " --model " + path("none.gguf") + file, {"none.gguf"});
  refuses("eval kl --base " + a + " --model " + a + " --file " + write("one.txt", "a"), {"nothing to score"});
  refuses("eval lmc --a " + a + file, {"--b"});
  refuses("eval lmc --a " + a + " --b " + wide + file, {"token_embd.weight", "in A", "in B"});
  for (const char* alphas : {"0,x", "", "0,,1", "nan"})
    refuses("eval lmc --a " + a + " --b " + a + file + " --alphas '" + alphas + "'", {"--alphas", "number"});
  refuses("eval choices " + a, {"file"});
  refuses("eval choices " + a + " " + path("none.jsonl"), {"none.jsonl"});
  refuses("eval choices " + a + " " + write("blank.jsonl", "\n\n"), {"blank.jsonl", "no questions"});
  refuses("eval choices " + a + " " + write("bad.jsonl", "\n{\"prompt\": \"a\"}\n"), {"bad.jsonl:2", "choices"});
  refuses("eval choices " + a + " " + text(), {"t.txt:1"});
  refuses("eval choices " + a + " " + write("q.jsonl", R"({"prompt": "", "choices": ["a", "b"], "answer": 0})"),
          {"question 1", "prompt"});
}

}  // namespace

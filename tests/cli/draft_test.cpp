// --draft of toy infer: the same text in fewer calls, and what is refused.
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliDraft : public Cli {
 protected:
  void SetUp() override { train("run", "--steps 20"); }
  void train(const std::string& name, const std::string& options) const {
    const Result r = toy("train from-scratch --corpus " + tiny_corpus() + kSmall + options + " --out " + path(name));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  json infer(const std::string& options) const {
    const Result r = toy("infer " + path("run") + " --prompt 'the cat sat on the cat sat' --n 60 --json " + options);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? json::parse(r.out) : json();
  }
};

TEST_F(CliDraft, TextsAndLogprobsStayTheSame) {
  ASSERT_EQ(toy("quantize " + path("run/model.gguf") + " " + path("small.gguf") + " --type q8_0").code, 0);
  for (const char* sampling : {"", "--temperature 0.8 --seed 5 "}) {
    json usual = infer(sampling), ngrams = infer(std::string(sampling) + "--draft ngram"),
         same = infer(std::string(sampling) + "--draft " + path("run") + " --draft-max 3"),
         small = infer(std::string(sampling) + "--draft " + path("small.gguf"));
    EXPECT_FALSE(usual.contains("draft"));
    EXPECT_GE(ngrams.at("draft").at("proposed"), ngrams.at("draft").at("accepted"));
    EXPECT_EQ(same.at("draft").at("proposed"), 0);  // it costs as much as the model, so that nothing is gained
    EXPECT_GE(small.at("draft").at("proposed"), small.at("draft").at("accepted"));
    EXPECT_GT(small.at("draft").at("accepted"), 5);
    for (json* j : {&ngrams, &same, &small}) j->erase("draft");
    EXPECT_EQ(ngrams, usual);
    EXPECT_EQ(same, usual);
    EXPECT_EQ(small, usual);
  }
}

TEST_F(CliDraft, TheGainIsOnTheTerminal) {
  const Result r = toy("infer " + path("run") + " --prompt aaaaaaaa --n 60 --logit-bias 97+50 --draft ngram");
  ASSERT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "aaaaaaaa" + std::string(52, 'a') + "\n");
  EXPECT_NE(r.err.find("proposed tokens accepted"), std::string::npos) << r.err;
}

// A model that costs as much as what it proposes for is not loaded: its tokenizer, which is broken, is not read.
TEST_F(CliDraft, WhatCannotPayIsNotLoaded) {
  std::string file = slurp(path("run/model.gguf"));
  const size_t kind = file.find("tokenizer.ggml.model");
  ASSERT_NE(kind, std::string::npos);
  file[kind] = 'x';  // the key
  write("other.gguf", file);
  const std::string command = "infer " + path("run") + " --prompt the --n 20 ";
  const Result usual = toy(command), with = toy(command + "--draft " + path("other.gguf"));
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_EQ(with.out, usual.out);
  EXPECT_NE(with.err.find("does not pay; it is not used"), std::string::npos) << with.err;
  EXPECT_EQ(std::ranges::count(with.err, '\n'), 1) << with.err;
}

// The prompt is long for the draft, which has as many weights, and the answer short.
TEST_F(CliDraft, ShortAnswersAreNotDrafted) {
  ASSERT_EQ(toy("quantize " + path("run/model.gguf") + " " + path("small.gguf") + " --type q8_0").code, 0);
  std::string prompt;
  for (int i = 0; i < 20; ++i) prompt += "the cat sat ";
  const std::string file = write("prompt.txt", prompt);
  const auto proposed = [&](const std::string& n) {
    const Result r = toy("infer " + path("run") + " --prompt-file " + file + " --ctx 320 --json --n " + n +
                         " --draft " + path("small.gguf"));
    return r.code == 0 ? json::parse(r.out).at("draft").at("proposed").get<int>() : -1;
  };
  EXPECT_EQ(proposed("9"), 0);
  EXPECT_GT(proposed("70"), 0);
}

TEST_F(CliDraft, RefusesWhatDoesNotFit) {
  const std::string command = "infer " + path("run") + " --prompt the ";
  refuses(command + "--draft none.gguf", {"none.gguf"});
  refuses(command + "--draft ''", {"--draft"});
  refuses(command + "--draft ngram --draft-max 0", {"--draft-max", "1 to 64"});
  refuses(command + "--draft " + TOY_GOLDEN, {"draft: ", "use a draft with the vocabulary of the model"});
}

}  // namespace

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

TEST_F(CliDraft, RefusesWhatDoesNotFit) {
  const std::string command = "infer " + path("run") + " --prompt the ";
  refuses(command + "--draft none.gguf", {"none.gguf"});
  refuses(command + "--draft ''", {"--draft"});
  refuses(command + "--draft ngram --draft-max 0", {"--draft-max", "1 to 64"});
  refuses(command + "--draft " + TOY_GOLDEN, {"draft: ", "use a draft with the vocabulary of the model"});
}

}  // namespace

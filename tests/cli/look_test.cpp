// toy look: what it prints, writes and refuses.
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliLook : public Cli {
 protected:
  std::string model() const {
    EXPECT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 2 --out " + path("run")).code, 0);
    return path("run/model.gguf");
  }
};

TEST_F(CliLook, JsonTextAndPageAgreeWithInfer) {
  const std::string m = model(), look = "look " + m + " --prompt 'the cat sat on' ";
  const json j = json::parse(toy(look + "--json --top 3").out);
  EXPECT_EQ(j.at("ids").size(), 14u);
  EXPECT_EQ(j.at("tokens")[2].at("text"), "e");
  const json& layer = j.at("layers")[1];
  ASSERT_EQ(layer.at("attention").size(), layer.at("heads").size());
  ASSERT_EQ(layer.at("attention")[0].size(), 14u);
  EXPECT_EQ(layer.at("attention")[0][0], json::parse("[1.0,0,0,0,0,0,0,0,0,0,0,0,0,0]"));
  EXPECT_EQ(layer.at("top").size(), 14u);
  const json next = json::parse(toy("infer " + m + " --prompt 'the cat sat on' --n 1 --json --top-logprobs 3").out);
  const json& last = j.at("layers").back().at("top")[13];
  for (size_t i = 0; i < 3; ++i) {
    const json& best = next.at("top_logprobs")[0][i];
    EXPECT_EQ(last[i].at("id"), best.at("id"));
    EXPECT_NEAR(last[i].at("probability").get<double>(), std::exp(best.at("logprob").get<double>()), 1e-6);
  }
  const Result text = toy(look + "--out " + path("look.html"));
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("after each layer\nembedding"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(path("look.html")), std::string::npos);
  const std::string page = slurp(path("look.html"));
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_EQ(toy(look + "--out " + path("look.html")).code, 0);  // its own pages are written again
  EXPECT_EQ(page, slurp(path("look.html")));
}

// An encoder that fills in masks, and bytes that are no text.
TEST_F(CliLook, EncodersAndBytes) {
  ASSERT_EQ(toy("corpus stories --bytes 30000 --seed 1 --out " + path("stories.txt")).code, 0);
  const Result trained =
      toy("train from-scratch --objective mlm --corpus " + path("stories.txt") +
          " --size bert-tiny --tokenizer bpe:300 --batch 2 --tokens 32 --steps 2 --out " + path("masks"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Result r = toy("look " + path("masks") + " --prompt 'the [MASK] sleeps' --out " + path("masks.html"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("what is predicted in its place"), r.out.npos) << r.out;
  EXPECT_NE(r.out.find("'[MASK]'"), r.out.npos) << r.out;
  EXPECT_NE(r.out.find("'[CLS]'"), r.out.npos) << r.out;
  EXPECT_NE(r.out.find("what each layer would predict in the place of token"), r.out.npos) << r.out;
  EXPECT_NE(slurp(path("masks.html")).find("\"causal\":false"), std::string::npos);
  for (const std::string& option : {std::string("--ablate 0.0"), "--compare " + path("masks")})
    refuses("look " + path("masks") + " --prompt 'the badger' " + option,
            {"--compare and --ablate", "not for encoders"});
  const Result bytes = toy("look " + model() + " --prompt-file " + write("bytes.txt", "a\xff\xfe"));
  ASSERT_EQ(bytes.code, 0) << bytes.err;
  EXPECT_NE(bytes.out.find("'\\xFF' "), bytes.out.npos) << bytes.out;
  EXPECT_NE(bytes.out.find("'\\xFE' "), bytes.out.npos) << bytes.out;
}

TEST_F(CliLook, ComparesModelsAndHeads) {
  const std::string m = model(), prompt = " --prompt 'the cat sat on' ";
  ASSERT_EQ(toy("quantize " + m + " " + path("small.gguf") + " --type q8_0").code, 0);
  const json j = json::parse(toy("look --compare " + m + " " + path("small.gguf") + prompt + "--json").out);
  EXPECT_EQ(j.at("compare"), m);
  EXPECT_EQ(j.at("tokens").size(), 14u);
  EXPECT_GT(j.at("layers").back().at("kl")[13].get<double>(), 0);
  EXPECT_LT(j.at("layers").back().at("kl")[13].get<double>(), 0.01);
  EXPECT_EQ(j.at("layers")[0].at("attention")[0].size(), 14u);
  const Result r = toy("look " + m + prompt + "--ablate 0.0 --ablate 1.1 --out " + path("a.html"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("after:  without 0.0, 1.1\n"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nmean  "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("\nlayer 1  "), std::string::npos) << r.out;
  EXPECT_TRUE(slurp(path("a.html")).starts_with("<!doctype html>"));
  // Before it, nothing changes.
  const json one = json::parse(toy("look " + m + prompt + "--ablate 1.0 --json").out);
  EXPECT_EQ(one.at("layers")[0].at("rows")[13], 0.0);
  EXPECT_GT(one.at("layers")[1].at("rows")[13].get<double>(), 0);
}

// Of a text that is longer than the model's context, and of one for whose attention no machine has the memory.
TEST_F(CliLook, TooLongTextsAreRefusedAtOnce) {
  const std::string letters = write("letters.txt", std::string(300000, 'a'));
  refuses("look " + model() + " --prompt-file " + letters, {"300000", "positions"});
  ASSERT_EQ(
      toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--context 400000 --steps 1 --out " + path("long"))
          .code,
      0);
  refuses("look " + path("long/model.gguf") + " --prompt-file " + letters,
          {"memory: a look at 300000 tokens needs", "use at most"});
  refuses("look " + path("long/model.gguf") + " --ablate 0.0 --prompt-file " + letters,
          {"memory: a look at 300000 tokens needs"});
}

TEST_F(CliLook, Refusals) {
  const std::string m = model();
  refuses("look " + m, {"prompt", "empty"});
  refuses("look " + m + " --prompt-ids 256", {"256", "0 to 255"});
  refuses("look " + m + " --prompt a --top 0", {"--top", "0"});
  refuses("look " + m + " --prompt a --out " + write("mine.html", "<html>mine</html>"), {"out", "mine.html"});
  refuses("look " + path("none.gguf") + " --prompt a", {"none.gguf"});
  refuses("look " + m + " --prompt a --ablate 9.0", {"ablate", "layer 9"});
  refuses("look " + m + " --prompt a --ablate 0", {"LAYER.HEAD"});
  refuses("look " + m + " --prompt a --ablate 0.0 --compare " + m, {"--ablate", "--compare"});
  refuses("look " + m + " --prompt a --compare " + TOY_GOLDEN, {"cannot be compared", "tokens"});
  refuses("look " + m + " --prompt a --ablate 0.0 --rows 3", {"--rows"});
  refuses("look " + std::string(TOY_GOLDEN) + " --prompt a", {"--prompt-ids"});
}

}  // namespace

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

TEST_F(CliLook, Refusals) {
  const std::string m = model();
  refuses("look " + m, {"prompt", "empty"});
  refuses("look " + m + " --prompt-ids 256", {"256", "0 to 255"});
  refuses("look " + m + " --prompt a --top 0", {"--top", "0"});
  refuses("look " + m + " --prompt a --out " + write("mine.html", "<html>mine</html>"), {"out", "mine.html"});
  refuses("look " + path("none.gguf") + " --prompt a", {"none.gguf"});
  refuses("look " + std::string(TOY_GOLDEN) + " --prompt a", {"--prompt-ids"});
}

}  // namespace

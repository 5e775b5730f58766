// toy train warm-start --donor: what a user sees.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliDonor : public Cli {
 protected:
  const std::string text_ = tiny_corpus(), model_ = path("base/model.gguf"), q8_ = path("q8.gguf"),
                    size_ = write("size.json", R"({"d_model": 48, "n_layers": 6, "n_heads": 4, "d_ff": 100})");

  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + text_ + kSmall + "--steps 40 --out " + path("base")).code, 0);
    ASSERT_EQ(toy("quantize " + model_ + " " + q8_ + " --type Q8_0").code, 0);
  }
  std::string train(const std::string& out, const std::string& more = "") const {
    return "train warm-start --donor " + q8_ + " --corpus " + text_ + " --batch 2 --tokens 16 --lr 1e-2 --steps 8 " +
           "--out " + path(out) + " " + more + (more.find("--size") == std::string::npos ? " --size " + size_ : "");
  }
  double perplexity(const std::string& model) const {
    const Result r = toy("eval " + model + " --file " + text_ + " --ctx 64 --exact --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out).at("perplexity");
  }
};

TEST_F(CliDonor, TrainsAndEveryProgramReadsTheResult) {
  const Result r = toy(train("run", "--lens pca --drift token_embd.weight:8 --steps 40 --json"));
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::string line, notes;
  size_t drifts = 0;
  while (std::getline(lines, line)) {
    const json e = json::parse(line);
    if (e.at("kind") == "note") notes += e.at("text").get<std::string>() + "\n";
    if (e.at("kind") == "drift") drifts += e.at("rows").size() == 8;
  }
  EXPECT_NE(notes.find("block i of 6 begins as block i mod 4 of " + q8_), std::string::npos) << notes;
  EXPECT_NE(notes.find("token_embd.lens.weight [48,64]: principal components of token_embd.weight"), std::string::npos)
      << notes;
  EXPECT_NE(notes.find("blk.*.attn_norm.weight [48]: cut or repeated from [64] (6 tensors)"), std::string::npos);
  EXPECT_EQ(drifts, 6u);
  EXPECT_LT(perplexity(path("run")), 100);
  EXPECT_EQ(toy("infer " + path("run") + " --prompt the -n 4").code, 0);
  const json card = json::parse(toy("describe " + path("run") + " --json").out);
  EXPECT_EQ(card.dump().find("lens"), std::string::npos);
}

TEST_F(CliDonor, Explains) {
  const Result r = toy(train("run", "--explain"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("token_embd.donor.weight"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("frozen  1 tensors"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("mod 4"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(path("run")));
  const Result fresh = toy(train("run", "--explain --blocks random"));
  EXPECT_EQ(fresh.err.find("mod 4"), std::string::npos) << fresh.err;
  EXPECT_NE(fresh.err.find("blk.*.ffn_up.weight [100,48]: fresh (6 tensors)"), std::string::npos) << fresh.err;
}

TEST_F(CliDonor, ResumesByTheFolderAlone) {
  ASSERT_EQ(toy(train("whole", "--checkpoint-every 4")).code, 0);
  ASSERT_EQ(toy(train("parts", "--checkpoint-every 4")).code, 0);
  for (const char* of_its_end : {"model.gguf", "finished.json", "checkpoints/step_000008"})
    fs::remove_all(path("parts/") + of_its_end);
  const Result r = toy("train --resume --out " + path("parts"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("resumed after step 4"), std::string::npos) << r.err;
  EXPECT_TRUE(slurp(path("parts/model.gguf")) == slurp(path("whole/model.gguf")));
}

TEST_F(CliDonor, Refuses) {
  const std::string more = " --corpus " + text_ + " --out " + path("x");
  refuses("train warm-start" + more, {"--init", "--donor"});
  refuses("train warm-start --init " + model_ + " --donor " + model_ + more, {"both --init and --donor"});
  refuses("train warm-start --init " + model_ + " --lens pca" + more, {"--lens belongs to --donor"});
  refuses(train("x", "--lens none"), {"lens is none", "48 wide", "64", "--lens random or pca"});
  refuses(train("x", "--lens plain"), {"--lens", "plain"});
  refuses(train("x", "--size " + path("nothing.json")), {"nothing.json"});
  refuses("train warm-start --donor " + text_ + " --size tiny" + more, {"corpus.txt"});
  write("wide.json", R"({"d_model": 96, "n_layers": 1, "n_heads": 4, "d_ff": 100})");
  refuses(train("x", "--lens pca --size " + path("wide.json")), {"lens is pca", "64", "96", "--lens random"});
  EXPECT_FALSE(fs::exists(path("x")));
}

}  // namespace

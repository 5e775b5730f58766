// toy train lora and full-finetune, --lora, toy merge: what a user sees.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliLora : public Cli {
 protected:
  const std::string text_ = tiny_corpus(), model_ = path("base/model.gguf"), q8_ = path("q8.gguf");

  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + text_ + kSmall + "--steps 3 --out " + path("base")).code, 0);
    ASSERT_EQ(toy("quantize " + model_ + " " + q8_ + " --type Q8_0").code, 0);
  }
  std::string lora(const std::string& out, const std::string& more = "") const {
    return "train lora --model " + q8_ + " --corpus " + text_ + " --rank 4 --batch 2 --tokens 16 --lr 1e-2 --steps 8 " +
           "--out " + path(out) + " " + more;
  }
  double perplexity(const std::string& model) const {
    const Result r = toy("eval " + model + " --file " + text_ + " --ctx 64 --exact --json");
    EXPECT_EQ(r.code, 0) << r.err;
    return json::parse(r.out).at("perplexity");
  }
};

TEST_F(CliLora, AnAdapterHelpsUnmergedMergedAndFromPeft) {
  const Result r = toy(lora("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find(path("run/adapter.gguf") + "\n"), std::string::npos) << r.out;
  const double before = perplexity(q8_), with = perplexity(q8_ + " --lora " + path("run"));
  EXPECT_LT(with, 0.99 * before);
  EXPECT_EQ(perplexity(q8_ + " --lora " + path("run/adapter.gguf")), with);
  EXPECT_EQ(perplexity(q8_ + " --lora " + path("run/peft")), with);
  EXPECT_EQ(perplexity(q8_ + " --lora " + path("run:0")), before);
  EXPECT_NEAR(perplexity(q8_ + " --lora " + path("run:0.5") + " --lora " + path("run:0.5")), with, 1e-3 * with);
  ASSERT_EQ(toy("merge " + q8_ + " --lora " + path("run") + " --out " + path("merged.gguf")).code, 0);
  EXPECT_NEAR(perplexity(path("merged.gguf")), with, 1e-3 * with);
  const Result merged = toy("merge " + q8_ + " --lora " + path("run") + " --type q8_0 --json --out " + path("m8.gguf"));
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_GT(json::parse(merged.out).at("tensors").at(1).at("bytes"), 0);
  EXPECT_NEAR(perplexity(path("m8.gguf")), with, 1e-2 * with);
  EXPECT_FALSE(fs::exists(path("m8.gguf.merging")));
  EXPECT_EQ(toy("infer " + q8_ + " --lora " + path("run") + " --prompt the -n 4").code, 0);
}

TEST_F(CliLora, EveryKindOfAdapter) {
  const double before = perplexity(q8_);
  for (const char* kind : {"--targets all-linear,output=2:8,embed_tokens --lora-plus 4", "--dora", "--pissa"}) {
    fs::remove_all(path("run"));
    const Result r = toy(lora("run", kind));
    ASSERT_EQ(r.code, 0) << kind << r.err;
    const double with = perplexity(q8_ + " --lora " + path("run"));
    EXPECT_LT(with, 0.99 * before) << kind;
    EXPECT_EQ(perplexity(q8_ + " --lora " + path("run/peft")), with) << kind;
    ASSERT_EQ(toy("merge " + q8_ + " --lora " + path("run") + " --out " + path("m.gguf")).code, 0) << kind;
    EXPECT_NEAR(perplexity(path("m.gguf")), with, 1e-3 * with) << kind;
  }
  const Result r = toy(lora("plus", "--lora-plus 16 --explain"));
  EXPECT_NE(r.out.find("lr 0.16"), std::string::npos) << r.out;
}

TEST_F(CliLora, ExplainsWithoutTraining) {
  const Result r = toy(lora("run", "--targets attn_q,v_proj --explain"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("trained 16 tensors"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("blk.*.attn_v.weight.lora_b"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("ffn_up.weight.lora"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("q8_0"), std::string::npos) << r.out;
  EXPECT_FALSE(fs::exists(path("run/adapter.gguf")));
}

TEST_F(CliLora, ResumesByTheFolderAlone) {
  ASSERT_EQ(toy(lora("whole", "--checkpoint-every 4")).code, 0);
  ASSERT_EQ(toy(lora("parts", "--checkpoint-every 4")).code, 0);
  for (const char* of_its_end : {"adapter.gguf", "finished.json", "checkpoints/step_000008"})
    fs::remove_all(path("parts/") + of_its_end);
  const Result r = toy("train --resume --out " + path("parts"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("resumed after step 4"), std::string::npos) << r.err;
  EXPECT_TRUE(slurp(path("parts/adapter.gguf")) == slurp(path("whole/adapter.gguf")));
}

TEST_F(CliLora, Refuses) {
  refuses(lora("x", "--targets attn_z"), {"targets", "attn_q"});
  refuses(lora("x", "--targets attn_q=big"), {"targets", "PATTERN=RANK:ALPHA"});
  refuses(lora("x", "--targets output --dora"), {"dora", "output.weight"});
  refuses(lora("x", "--dora --pissa"), {"exclude each other"});
  refuses(lora("x", "--lora-plus 0"), {"lora-plus"});
  refuses("train lora --model " + q8_ + " --corpus " + text_ + " --rank 400 --out " + path("x"), {"rank is 400"});
  refuses("infer " + q8_ + " --lora " + q8_ + " --prompt a", {"general.type", "adapter"});
  refuses("infer " + q8_ + " --lora " + path("nothing.gguf") + " --prompt a", {"nothing.gguf"});
  refuses("merge " + q8_ + " --out " + path("m.gguf"), {"nothing to merge", "--lora"});
  ASSERT_EQ(toy(lora("run")).code, 0);
  refuses("infer " + path("run") + " --prompt a", {"the run made an adapter", "--lora"});
  refuses("bench train --shape tiny --rank 4", {"--rank", "--mode lora"});
  refuses("train full-finetune --model " + q8_ + " --corpus " + text_ + " --freeze 'blk.*.x' --out " + path("y"),
          {"freeze", "blk.*.x"});
}

TEST_F(CliLora, FullFineTuneOfAPart) {
  const Result r = toy("train full-finetune --model " + q8_ + " --corpus " + text_ +
                       " --train 'blk.3.*' --batch 2 --tokens 16 --lr 1e-2 --steps 8 --out " + path("part"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(perplexity(path("part")), 0.99 * perplexity(q8_));
}

}  // namespace

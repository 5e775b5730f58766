// toy train lora and full-finetune, --lora, toy merge: what a user sees.
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <csignal>

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
  EXPECT_NE(toy("infer " + q8_ + " hi -n 1 --lora " + path("run:50")).err.find("counts the adapter 50 times; 0 to 1"),
            std::string::npos);
  EXPECT_NEAR(perplexity(q8_ + " --lora " + path("run:0.5") + " --lora " + path("run:0.5")), with, 1e-3 * with);
  ASSERT_EQ(toy("merge " + q8_ + " --lora " + path("run") + " --out " + path("merged.gguf")).code, 0);
  EXPECT_NEAR(perplexity(path("merged.gguf")), with, 1e-3 * with);
  const Result merged = toy("merge " + q8_ + " --lora " + path("run") + " --type q8_0 --json --out " + path("m8.gguf"));
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_GT(json::parse(merged.out).at("tensors").at(1).at("bytes"), 0);
  EXPECT_EQ(json::parse(merged.out).at("model"), q8_);
  EXPECT_NEAR(perplexity(path("m8.gguf")), with, 1e-2 * with);
  for (const auto& entry : fs::directory_iterator(fs::path(path("m8.gguf")).parent_path()))
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  EXPECT_EQ(toy("infer " + q8_ + " --lora " + path("run") + " --prompt the -n 4").code, 0);
}

TEST_F(CliLora, AnInterruptedMergeLeavesNothing) {
  ASSERT_EQ(toy(lora("run", "--steps 1")).code, 0);
  fs::create_directory(path("work"));
  const auto run = [this](const std::string& type, const std::string& shim) {
    const std::string line = std::string("LD_PRELOAD=") + TOY_DISK_SHIM + " TOY_SHIM_ROOT=" + path("work") + " " +
                             shim + " " + TOY_BINARY + " merge " + q8_ + " --lora " + path("run") + " --type " + type +
                             " --overwrite --out " + path("work/m.gguf") + " >/dev/null 2>" + path("stderr");
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  };
  for (const std::string type : {"F32", "Q8_0"}) {
    fs::remove(path("log"));
    ASSERT_EQ(run(type, "TOY_SHIM_LOG=" + path("log")), 0) << slurp(path("stderr"));
    const std::string log = slurp(path("log")), whole = slurp(path("work/m.gguf"));
    int ended = 0, rounds = 0;
    // On a busy machine a merge may be done before it hears of the signal.
    do
      for (int64_t k = 1; k <= std::count(log.begin(), log.end(), '\n'); k += 3) {
        fs::remove(path("work/m.gguf"));
        const std::string at = " TOY_SHIM_SIGNAL_AT=" + std::to_string(k);
        const int code = run(type, "TOY_SHIM_SIGNAL=" + std::to_string(SIGINT) + at);
        ASSERT_TRUE(code == 0 || code == 128 + SIGINT) << code << at;
        ended += code != 0;
        for (const auto& entry : fs::directory_iterator(path("work")))
          EXPECT_EQ(entry.path().filename(), "m.gguf") << at;
        EXPECT_EQ(fs::exists(path("work/m.gguf")), code == 0) << at;
        if (code == 0) {
          EXPECT_TRUE(slurp(path("work/m.gguf")) == whole) << at;
        }
      }
    while (type == "Q8_0" && ended == 0 && ++rounds < 5);
    EXPECT_EQ(ended > 0, type == "Q8_0");  // the only file is written to its end
  }
}

TEST_F(CliLora, BenchReadsTheAdaptersToo) {
  ASSERT_EQ(toy(lora("run")).code, 0);
  const auto bench = [this](const std::string& model) {
    const Result r = toy("bench infer " + model + " --prompt 4 --decode 4 --repeat 1 --json");
    EXPECT_EQ(r.code, 0) << r.err;
    const json j = json::parse(r.out);
    return j.at("decode_GBps").get<double>() / j.at("decode_tps").get<double>();  // that a token reads
  };
  EXPECT_GT(bench(q8_ + " --lora " + path("run") + " --lora " + path("run:0.5")), 1.01 * bench(q8_));
  refuses("bench infer " + q8_ + " --lora " + path("none.gguf"), {"none.gguf"});
  refuses("bench infer --shape tiny --lora " + path("run"), {"--lora", "--shape"});
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
    EXPECT_NE(perplexity(q8_ + " --lora " + path("run:0.5")), with) << kind;
    for (const char* off : {"run:0", "run/peft:0"}) EXPECT_EQ(perplexity(q8_ + " --lora " + path(off)), before) << kind;
    ASSERT_EQ(toy("merge " + q8_ + " --lora " + path("run") + " --overwrite --out " + path("m.gguf")).code, 0) << kind;
    EXPECT_NEAR(perplexity(path("m.gguf")), with, 1e-3 * with) << kind;
  }
}

// What resuming needs, what a command reads, and files that no run wrote.
TEST_F(CliLora, NothingIsLost) {
  const std::string own = "train full-finetune --model " + model_ + " --corpus " + text_ +
                          " --batch 2 --tokens 16 --steps 1 --out " + path("base");
  const std::string before = slurp(model_);
  refuses(own, {path("base/model.gguf"), "--model"});
  EXPECT_TRUE(slurp(model_) == before);
  ASSERT_EQ(toy(lora("run")).code, 0);
  refuses("merge " + q8_ + " --lora " + path("run") + " --out " + path("run/adapter.gguf"), {"--lora"});
  refuses("infer " + path("run/adapter.gguf") + " --prompt-ids 1", {"an adapter; give the model", "--lora"});
  write("mine/peft/adapter_config.json", "{}");
  refuses(lora("mine"), {path("mine/peft/adapter_config.json"), "choose another folder"});
  EXPECT_EQ(slurp(path("mine/peft/adapter_config.json")), "{}");
  // A second run in the folder, which is interrupted: its checkpoint is newer than the first one's adapter.
  ASSERT_EQ(toy(lora("run", "--seed 3 --overwrite --time-limit 0.000001s")).code, 0);
  fs::last_write_time(path("run/adapter.gguf"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  const Result r = toy("infer " + q8_ + " --lora " + path("run") + " --prompt the -n 1");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("adapter.gguf is older than the newest checkpoint"), std::string::npos) << r.err;
}

TEST_F(CliLora, BrokenAdaptersAreRefused) {
  ASSERT_EQ(toy(lora("run")).code, 0);
  std::string bytes = slurp(path("run/adapter.gguf"));
  bytes.replace(bytes.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));  // NaN
  const std::string broken = write("broken.gguf", bytes);
  refuses("infer " + q8_ + " --lora " + broken + " --prompt a", {"adapter", "NaN"});
  EXPECT_EQ(toy("merge " + q8_ + " --lora " + broken + " --out " + path("m.gguf")).code, 2);
  EXPECT_FALSE(fs::exists(path("m.gguf")));
  refuses("infer " + q8_ + " --lora " + path("run/peft") + ":inf --prompt a", {"'inf' is no number"});
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

// Each prompt of a batch with its own adapters has the text that it has alone.
TEST_F(CliLora, PromptsWithTheirOwnAdapters) {
  ASSERT_EQ(toy(lora("run")).code, 0);
  const std::string prompts = write("p.jsonl", R"({"prompt": "the cat", "lora": [0]}
{"prompt": "the cat", "lora": [1]}
{"prompt": "the cat"}
)");
  const std::string infer = "infer " + q8_ + " -n 8 --json ";
  const Result r = toy(infer + "--lora " + path("run") + " --prompts " + prompts);
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::vector<nlohmann::json> got;
  for (std::string line; std::getline(lines, line);) got.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(got.size(), 3u);
  const auto base = nlohmann::json::parse(toy(infer + "--prompt 'the cat'").out),
             with = nlohmann::json::parse(toy(infer + "--prompt 'the cat' --lora " + path("run")).out);
  EXPECT_EQ(got[0].at("logprobs"), base.at("logprobs"));
  EXPECT_EQ(got[1].at("logprobs"), with.at("logprobs"));
  EXPECT_EQ(got[2].at("logprobs"), with.at("logprobs"));
  EXPECT_NE(base.at("logprobs"), with.at("logprobs"));
  refuses("infer " + q8_ + " --prompts " + prompts, {"p.jsonl:1", "1 factors", "0 times"});
  const auto refuses_line = [&](const std::string& line, const std::vector<std::string>& facts) {
    refuses("infer " + q8_ + " --lora " + path("run") + " --prompts " + write("q.jsonl", line), facts);
  };
  refuses_line(R"({"prompt": "a", "lora": 1})", {"q.jsonl:1", "not an array"});
  refuses_line(R"({"prompt": "a", "lora": []})", {"q.jsonl:1", "'lora' is empty"});
  refuses_line(R"({"prompt": "a", "lora": [0], "lora": [1]})", {"q.jsonl:1", "'lora' twice"});
  refuses_line(R"({"prompt": "a", "prompt": "b"})", {"q.jsonl:1", "'prompt' twice"});
  refuses_line(R"({"prompt": "a", "lora": [1e38]})", {"q.jsonl:1", "1e+38", "1000000"});
}

// A prompt whose adapter is too much for floats ends alone: the others have the bits that they have without it.
TEST_F(CliLora, APromptThatFailsCostsNoOther) {
  ASSERT_EQ(toy(lora("run")).code, 0);
  const std::string fine = R"({"prompt": "the cat", "lora": [0]}
{"prompt": "a dog", "lora": [1e-33]}
)",
                    bad = R"({"prompt": "the cat", "lora": [1e6]}
)";
  const std::string infer = "infer " + q8_ + " -n 8 --lora " + path("run") + ":1e33 --prompts ";
  for (const std::string more : {" --json", ""}) {
    const Result alone = toy(infer + write("fine.jsonl", fine) + more),
                 with = toy(infer + write("p.jsonl", fine + bad) + more);
    EXPECT_EQ(alone.code, 0) << alone.err;
    EXPECT_EQ(with.code, 1) << with.err;
    EXPECT_NE(with.err.find("p.jsonl:3: the model gives"), std::string::npos) << with.err;
    EXPECT_TRUE(with.out.starts_with(alone.out)) << with.out << alone.out;
    EXPECT_EQ(with.out.find("\"index\":2,\"error\"") != std::string::npos, !more.empty()) << with.out;
  }
}

TEST_F(CliLora, Refuses) {
  refuses(lora("x", "--targets attn_z"), {"targets", "attn_q"});
  refuses("train lora --model " + q8_ + " --corpus " + text_ + " --rank 400 --out " + path("x"), {"rank is 400"});
  refuses(lora("x", "--targets attn_q=four"), {"attn_q=four", "PATTERN=RANK"});
  refuses(lora("x", "--lora-plus 0"), {"--lora-plus"});
  refuses(lora("x", "--dora --targets output"), {"dora", "output.weight"});
  refuses(lora("x", "--dora --pissa"), {"pissa", "dora"});
  refuses(lora("x", "--pissa --targets output"), {"pissa", "output.weight"});
  refuses(lora("x", "--dora --lora-dropout 0.1"), {"lora-dropout", "DoRA"});
  refuses("infer " + q8_ + " --lora " + q8_ + " --prompt a", {"it is a model, no adapter; --lora takes"});
  refuses("infer " + q8_ + " --lora " + path("nothing.gguf") + " --prompt a", {"nothing.gguf"});
  refuses("merge " + q8_ + " --out " + path("m.gguf"), {"nothing to merge", "--lora"});
  ASSERT_EQ(toy(lora("run")).code, 0);
  refuses("infer " + path("run") + " --prompt a", {"the run made an adapter of " + q8_, "--lora", "toy merge " + q8_});
  const std::string adapter = path("run/adapter.gguf"), new_file = " " + path("new.gguf");
  refuses("convert " + path("run") + new_file, {"the run made an adapter of " + q8_, "toy merge " + q8_});
  refuses("convert " + path("run/peft") + new_file, {"is an adapter", "toy merge MODEL"});
  refuses("convert " + adapter + " " + path("folder"), {"an adapter", "give the model"});
  refuses("convert " + adapter + new_file + " --type f16", {"an adapter", "toy merge MODEL --lora"});
  refuses("quantize " + adapter + new_file + " --type Q8_0", {"an adapter", "toy merge MODEL --lora"});
  refuses("bench train --shape tiny --rank 4", {"--rank", "--mode lora"});
  refuses("train full-finetune --model " + q8_ + " --corpus " + text_ + " --freeze 'blk.*.x' --out " + path("y"),
          {"freeze", "blk.*.x"});
}

TEST_F(CliLora, ItSaysHowToTryTheAdapterAndForWhichModelItIs) {
  const Result r = toy(lora("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("to try it: toy infer " + q8_ + " --lora " + path("run") + " --prompt TEXT\n"),
            std::string::npos)
      << r.err;
  const std::string try_it = " --lora " + path("run") + " --prompt the -n 2";
  EXPECT_EQ(toy("infer " + q8_ + try_it).err.find("another model"), std::string::npos);
  // The same shapes, other norms.
  ASSERT_EQ(toy("train full-finetune --model " + q8_ + " --corpus " + text_ +
                " --batch 2 --tokens 16 --lr 1e-2 --steps 2 --out " + path("other"))
                .code,
            0);
  const Result other = toy("infer " + path("other") + try_it);
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("the adapter was trained with another model"), std::string::npos) << other.err;
  const Result merged = toy("merge " + path("other") + " --lora " + path("run") + " --out " + path("merged.gguf"));
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_NE(merged.err.find("the adapter was trained with another model"), std::string::npos) << merged.err;
  // A quantized copy has the norms of the model.
  ASSERT_EQ(toy("quantize " + q8_ + " " + path("small.gguf") + " --type Q4_0").code, 0);
  EXPECT_EQ(toy("infer " + path("small.gguf") + try_it).err.find("another model"), std::string::npos);
}

TEST_F(CliLora, FullFineTuneOfAPart) {
  const Result r = toy("train full-finetune --model " + q8_ + " --corpus " + text_ +
                       " --train 'blk.3.*' --batch 2 --tokens 16 --lr 1e-2 --steps 8 --out " + path("part"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(perplexity(path("part")), 0.99 * perplexity(q8_));
}

TEST_F(CliLora, FullFineTuneSavesInAnyTypeOfQuantize) {
  const std::string train = "train full-finetune --model " + q8_ + " --corpus " + text_ +
                            " --batch 2 --tokens 16 --lr 1e-2 --steps 4 --ema 0.9 --out ";
  ASSERT_EQ(toy(train + path("f32")).code, 0);
  for (const char* type : {"q8_0", "Q4_K_M"}) {
    ASSERT_EQ(toy(train + path("narrow") + " --dtype " + type).code, 0) << type;
    for (const char* file : {"model.gguf", "model-ema.gguf"}) {
      ASSERT_EQ(toy("quantize " + path("f32/") + file + " " + path("again.gguf") + " --overwrite --type " + type).code,
                0);
      EXPECT_TRUE(slurp(path("again.gguf")) == slurp(path("narrow/") + file)) << type << " " << file;
    }
    EXPECT_EQ(toy("infer " + path("narrow") + " --prompt the -n 2").code, 0);
    fs::remove_all(path("narrow"));
  }
  refuses(train + path("x") + " --dtype q4_k_n", {"--dtype is 'q4_k_n'", "Did you mean 'q4_k_"});
  refuses(lora("x", "--dtype q8_0"), {"--dtype", "q8_0"});  // an adapter has floats
}

TEST_F(CliLora, RatesByDepthAreExplained) {
  const std::string train = "train full-finetune --model " + q8_ + " --corpus " + text_ +
                            " --batch 2 --tokens 16 --lr 1e-3 --steps 4 --explain --out " + path("x");
  const Result r = toy(train + " --lr-decay 0.5");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("lr 6.25e-05 to 0.0005"), std::string::npos) << r.out;  // of four blocks
  EXPECT_NE(r.out.find("lr 3.125e-05"), std::string::npos) << r.out;           // of the embedding
  const json explained = json::parse(toy(train + " --lr-decay 0.5 --json").out);
  EXPECT_EQ(explained.at("roles").at(1).at("name"), "blk.*.attn_norm.weight");
  EXPECT_EQ(explained.at("roles").at(1).at("last_lr"), 5e-4);
  EXPECT_EQ(toy(train).out.find(" to "), std::string::npos);
  refuses(train + " --lr-decay 2", {"lr-decay is 2", "use above 0 to 1"});
  refuses(train + " --lr-decay 0", {"--lr-decay"});
}

}  // namespace

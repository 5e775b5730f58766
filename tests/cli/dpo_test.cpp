// toy train dpo, and toy train lora on examples: what a user sees.
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

// Questions with an answer that is wanted and one that is not.
std::string pairs(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i)
    out += R"({"prompt": "say )" + std::to_string(i % 7) + R"(:", "chosen": " yes)" + std::string(size_t(i % 3), '!') +
           R"(", "rejected": " no)" + std::string(size_t(i % 2), '.') + "\"}\n";
  return out;
}
std::string rated(int rows) {
  std::string out;
  for (int i = 0; i < rows; ++i)
    out += R"({"prompt": "say )" + std::to_string(i % 7) + R"(:", "completion": ")" + (i % 2 ? " yes" : " no") +
           R"(", "label": )" + (i % 2 ? "true" : "false") + "}\n";
  return out;
}

class CliDpo : public Cli {
 protected:
  const std::string text_ = tiny_corpus(), q8_ = path("q8.gguf"), pairs_ = write("pairs.jsonl", pairs(80));

  void SetUp() override {
    ASSERT_EQ(toy("train from-scratch --corpus " + text_ + kSmall + "--steps 3 --out " + path("base")).code, 0);
    ASSERT_EQ(toy("quantize " + path("base/model.gguf") + " " + q8_ + " --type Q8_0").code, 0);
  }
  std::string dpo(const std::string& out, const std::string& more = "") const {
    return "train dpo --model " + q8_ + " --rank 4 --out " + path(out) +
           with("--data " + pairs_ + " --batch 2 --tokens 48 --lr 3e-3 --steps 24 --eval-every 8", more) + more;
  }
  // The events of this kind.
  std::vector<json> events(const std::string& out, const std::string& kind) const {
    std::istringstream lines(slurp(path(out + "/events.jsonl")));
    std::vector<json> list;
    for (std::string line; std::getline(lines, line);)
      if (json e = json::parse(line); e.at("kind") == kind) list.push_back(std::move(e));
    return list;
  }
};

// Over a quantized base, each loss learns which answers are wanted, of pairs that it was not trained on.
TEST_F(CliDpo, EachLossLearnsToPrefer) {
  for (const std::string loss : {"dpo", "ipo", "kto", "orpo"}) {
    const Result r = toy(dpo(loss, " --loss " + loss));
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find(path(loss + "/adapter.gguf") + "\n"), std::string::npos) << r.out;
    const auto steps = events(loss, "step"), evals = events(loss, "eval");
    ASSERT_EQ(steps.size(), 24u);
    ASSERT_EQ(evals.size(), 3u);
    const json& last = evals.back();
    EXPECT_LT(last.at("loss"), evals.front().at("loss")) << loss;
    EXPECT_GT(last.at("reward_margin"), 0.05) << loss;
    EXPECT_NEAR(double(last.at("reward_margin")), double(last.at("reward_chosen")) - double(last.at("reward_rejected")),
                1e-9);
    EXPECT_EQ(last.contains("reward_accuracy"), loss != "kto");
    if (loss != "kto") {
      EXPECT_EQ(last.at("reward_accuracy"), 1) << loss;
    }
    EXPECT_NE(r.err.find("validation loss"), std::string::npos);
    EXPECT_NE(r.err.find("margin="), std::string::npos) << r.err;
    // Step 1: the adapter adds nothing yet.
    if (loss == "dpo") {
      EXPECT_NEAR(double(steps[0].at("loss")), std::log(2.0), 1e-12);
    }
    if (loss == "kto") {
      EXPECT_NEAR(double(steps[0].at("loss")), 0.5, 1e-12);
    }
    if (loss != "orpo") {
      EXPECT_EQ(steps[0].at("reward_margin"), 0);
    }
  }
  // What was learned is in the adapter.
  EXPECT_EQ(toy("infer " + q8_ + " --lora " + path("dpo") + " --prompt 'say 3:' -n 4").code, 0);
  const Result compared = toy("runs compare " + path("dpo") + " " + path("ipo") + " --json");
  EXPECT_NE(compared.out.find("reward_margin"), std::string::npos) << compared.out;
  EXPECT_EQ(toy("runs show " + path("dpo") + " --metric reward_accuracy,validation_accuracy").code, 0);
}

TEST_F(CliDpo, SameBytesForThreadsAndResuming) {
  const std::string options = " --checkpoint-every 8 --lora-dropout 0.1 --accumulate 2 --sample 4";
  for (const std::string loss : {"dpo", "kto"}) {
    const std::string call = options + " --loss " + loss;
    ASSERT_EQ(toy(dpo("all_" + loss, call + " --threads 1")).code, 0);
    const std::string all = slurp(path("all_" + loss + "/adapter.gguf"));
    ASSERT_EQ(toy(dpo("two_" + loss, call + " --threads 2")).code, 0);
    EXPECT_TRUE(slurp(path("two_" + loss + "/adapter.gguf")) == all) << loss;
    const Result watched = toy(dpo("watched_" + loss, call + " --grads '*.lora_b:4' --drift '*.lora_b:8'"));
    ASSERT_EQ(watched.code, 0) << watched.err;
    EXPECT_TRUE(slurp(path("watched_" + loss + "/adapter.gguf")) == all) << loss;
    ASSERT_EQ(toy(dpo("parts_" + loss, call)).code, 0);
    fs::remove(path("parts_" + loss + "/finished.json"));
    fs::remove_all(path("parts_" + loss + "/checkpoints/step_000024"));
    fs::remove(path("parts_" + loss + "/adapter.gguf"));
    const Result resumed =
        toy(loss == "kto" ? "train --resume --out " + path("parts_kto") : dpo("parts_" + loss, call + " --resume"));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("resumed after step 16"), std::string::npos) << resumed.err;
    EXPECT_TRUE(slurp(path("parts_" + loss + "/adapter.gguf")) == all) << loss;
  }
}

TEST_F(CliDpo, RatedAnswersAndBadRows) {
  const std::string file = write("rated.jsonl", rated(60));
  const Result r = toy(dpo("rated", " --loss kto --data " + file));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GT(events("rated", "eval").back().at("reward_margin"), 0.05);
  const std::string bad = write("bad.jsonl", "\n" + pairs(3) + R"({"prompt": "a", "chosen": "b"})" + "\n");
  refuses(dpo("x", " --data " + bad), {"bad.jsonl:5", "'rejected' is missing", "--bad-rows skip"});
  EXPECT_EQ(toy(dpo("skipped", " --data " + bad + " --bad-rows skip --steps 1")).code, 0);
  refuses(dpo("x", " --data " + file), {"rated.jsonl:1", "--loss kto"});
  refuses(dpo("x", " --data " + write("text.jsonl", "{\"text\": \"abc\"}\n")), {"text.jsonl:1", "chosen", "rejected"});
  refuses(dpo("x", " --data " + path("none.jsonl")), {"none.jsonl"});
  refuses(dpo("x", " --loss pdo"), {"--loss", "dpo"});
  refuses(dpo("x", " --beta 0"), {"--beta"});
  refuses(dpo("x", " --rank 400"), {"rank is 400"});
  refuses(dpo("x", " --tokens 4"), {"--tokens"});
  refuses("train dpo --model " + q8_ + " --out " + path("x"), {"--data"});
  refuses("train lora --model " + q8_ + " --data " + pairs_ + " --out " + path("x"),
          {"pairs.jsonl:1", "toy train dpo"});
  EXPECT_FALSE(fs::exists(path("x")));
  // Another loss or base is another run.
  ASSERT_EQ(toy(dpo("run", " --steps 4 --checkpoint-every 2")).code, 0);
  fs::remove(path("run/finished.json"));
  refuses(dpo("run", " --steps 4 --checkpoint-every 2 --resume --beta 0.2"), {"beta"});
  std::string bytes = slurp(q8_);
  bytes.back() = char(bytes.back() + 1);
  write("q8.gguf", bytes);
  refuses(dpo("run", " --steps 4 --checkpoint-every 2 --resume --allow-changes"), {"belongs to another base"});
}

// Within --memory some of it is recomputed; rows may come from several files, and validation from one of its own.
TEST_F(CliDpo, MemoryMixturesAndValidationFiles) {
  const std::string more = write("more.jsonl", pairs(30)), held = write("held.jsonl", pairs(12));
  const std::string call =
      " --data " + pairs_ + " --data " + more + " --corpus-weight 3 --corpus-weight 1 --val " + held + " --steps 6";
  ASSERT_EQ(toy(dpo("kept", call + " --batch 16")).code, 0);
  const json eval = events("kept", "eval").back();
  EXPECT_EQ(eval.at("whole"), true);
  EXPECT_GT(eval.at("nats_per_byte"), 0);
  const json plan = json::parse(toy(dpo("fits", call + " --batch 16 --dry-run --json")).out);
  const int64_t peak = plan.at("memory").at("peak_bytes"), fits = peak / 1024 - 2048;  // less by 2 MiB
  const Result r = toy(dpo("fits", call + " --batch 16 --memory " + std::to_string(fits) + "K"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("recomputing"), std::string::npos) << r.err;
  EXPECT_TRUE(slurp(path("fits/adapter.gguf")) == slurp(path("kept/adapter.gguf")));
  refuses(dpo("x", call + " --memory 1M"), {"memory: 1.0 MiB is not enough", "--memory"});
}

TEST_F(CliDpo, DataShowMarksBothAnswers) {
  const std::string call = "data show " + pairs_ + " --model " + q8_;
  const Result r = toy(call + " --rows 1");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("pairs.jsonl:1: chosen, "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("say 0:[[ yes]]"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("say 0:[[ no]]"), std::string::npos) << r.out;
  const Result one = toy("data show " + write("rated.jsonl", rated(2)) + " --model " + q8_);
  EXPECT_NE(one.out.find("rated.jsonl:1: rejected, "), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("rated.jsonl:2: chosen, "), std::string::npos) << one.out;
  const json row = json::parse(toy("data show " + path("rated.jsonl") + " --rows 1 --json --model " + q8_).out);
  EXPECT_EQ(row.at("kind"), "rated");
  EXPECT_EQ(row.at("label"), false);
}

// --explain and --dry-run name memory and time, and make nothing.
TEST_F(CliDpo, Explains) {
  const Result r = toy(dpo("x", " --explain"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("blk.*.attn_v.weight.lora_b"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("memory"), std::string::npos) << r.out;
  EXPECT_FALSE(fs::exists(path("x")));
}

// toy train lora on examples: the answer is learned, exactly, and the run is resumed and repeated to the same bytes.
TEST_F(CliDpo, AnAdapterOfExamples) {
  std::string rows;
  for (int i = 0; i < 60; ++i)
    rows += R"({"messages": [{"role": "user", "content": "say )" + std::to_string(i % 7) +
            R"("}, {"role": "assistant", "content": "yes"}]})" + "\n";
  const std::string file = write("chats.jsonl", rows),
                    chat = write("chat.jinja",
                                 "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</>' }}{% endfor %}"
                                 "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}");
  const std::string call = "train lora --model " + q8_ + " --data " + file + " --chat-template " + chat +
                           " --rank 8 --batch 2 --tokens 64 --lr 1e-2 --checkpoint-every 60 --eval-every 60 --out ";
  const Result all = toy(call + path("all") + " --steps 120");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.err.find("targets count in the loss"), std::string::npos) << all.err;
  // The base's embeddings are nearly as random as they began, so that no token gets far above the others.
  EXPECT_LT(double(events("all", "eval").back().at("loss")), 0.8 * double(events("all", "step")[0].at("loss")));
  EXPECT_EQ(toy("infer " + q8_ + " --prompt '<user>say 3</><assistant>' -n 6 --temperature 0").out.find("yes</>"),
            std::string::npos);
  const Result answer =
      toy("infer " + q8_ + " --lora " + path("all") + " --prompt '<user>say 3</><assistant>' -n 6 --temperature 0");
  EXPECT_NE(answer.out.find("yes</>"), std::string::npos) << answer.out << answer.err;
  ASSERT_EQ(toy(call + path("two") + " --steps 120 --threads 2").code, 0);
  const std::string bytes = slurp(path("all/adapter.gguf"));
  EXPECT_TRUE(slurp(path("two/adapter.gguf")) == bytes);
  // The end of it again, without its options.
  fs::remove(path("two/finished.json"));
  fs::remove(path("two/adapter.gguf"));
  fs::remove_all(path("two/checkpoints/step_000120"));
  const Result resumed = toy("train --resume --out " + path("two"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resumed after step 60"), std::string::npos) << resumed.err;
  EXPECT_TRUE(slurp(path("two/adapter.gguf")) == bytes);
  // Another file, another template.
  fs::remove(path("two/finished.json"));
  refuses(call + path("two") + " --steps 120 --resume --train-on all", {"train_on"});
  write("chats.jsonl", rows + "{\"no\": 1}\n");
  refuses(call + path("x") + " --steps 1", {"chats.jsonl:61", "fields no", "--bad-rows skip"});
  EXPECT_EQ(toy(call + path("skipped") + " --steps 1 --bad-rows skip").code, 0);
  refuses("train lora --model " + q8_ + " --data " + file + " --out " + path("x"), {"chats.jsonl:1", "chat template"});
}

}  // namespace

// toy train grpo: a run learns, resumes to the same bytes, and refuses what it cannot do.
#include <chrono>
#include <thread>

#include "cli/checkpoint_fixture.h"

namespace {

using nlohmann::json;

class CliGrpo : public toy_cli_test::Checkpoints {
 protected:
  // A model that answers in two ways.
  std::string model() const {
    std::string rows;
    for (int i = 0; i < 60; ++i)
      for (const char* answer : {"yes", "no"})
        rows += R"({"messages": [{"role": "user", "content": "q)" + std::to_string(i % 5) +
                R"("}, {"role": "assistant", "content": ")" + answer + "\"}]}\n";
    const std::string data = write("rows.jsonl", rows);
    EXPECT_EQ(toy("train from-scratch --data " + data +
                  " --chat-template chatml --size tiny --tokenizer bytes --batch 4 "
                  "--tokens 64 --steps 60 --lr 4e-3 --val-fraction 0 --out " +
                  path("chat"))
                  .code,
              0);
    return path("chat/model.gguf");
  }
  std::string tasks() const {
    std::string rows;
    for (int i = 0; i < 5; ++i)
      rows += R"({"messages": [{"role": "user", "content": "q)" + std::to_string(i) +
              R"("}], "answer": "yes", "kind": "k"})" + "\n";
    return write("tasks.jsonl", rows);
  }
  static std::vector<json> steps(const std::string& out) {
    std::vector<json> list;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
      if (const json e = json::parse(line); e.at("kind") == "step") list.push_back(e);
    return list;
  }
};

TEST_F(CliGrpo, LearnsWithAnAdapterAndResumesToTheSameBytes) {
  const std::string grpo = "train grpo --model " + model() + " --data " + tasks() +
                           " --reward exact --group 4 --questions 5 --max-tokens 6 --rank 4 --lr 3e-3 --json ";
  const Result r = toy(grpo + "--steps 12 --out " + path("one"));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<json> all = steps(r.out);
  ASSERT_EQ(all.size(), 12u);
  for (const json& s : all) {
    EXPECT_EQ(s.at("ratio_deviation"), 0.0);
    EXPECT_GT(s.at("length").get<double>(), 0);
    EXPECT_GE(s.at("entropy").get<double>(), 0);
  }
  EXPECT_GT(all.back().at("reward").get<double>(), all.front().at("reward").get<double>());
  EXPECT_TRUE(fs::exists(path("one/adapter.gguf")));
  // Answers with their rewards, in the events and in the report.
  std::istringstream lines(r.out);
  int samples = 0;
  for (std::string line; std::getline(lines, line);)
    if (const json e = json::parse(line); e.at("kind") == "sample") {
      ++samples;
      EXPECT_EQ(e.at("reward"), e.at("text") == "yes" ? 1.0 : 0.0) << line;
      EXPECT_EQ(e.at("wanted"), "yes");
    }
  EXPECT_GE(samples, 2);
  ASSERT_EQ(toy("runs report " + path("one") + " --out " + path("report.html")).code, 0);
  EXPECT_NE(slurp(path("report.html")).find(", reward "), std::string::npos);
  // An adapter begins as the model without it, and a heavy weight keeps it there.
  const Result near = toy(grpo + "--steps 12 --beta 100 --out " + path("near"));
  ASSERT_EQ(near.code, 0) << near.err;
  EXPECT_EQ(steps(near.out).front().at("kl"), 0.0);
  EXPECT_GT(steps(near.out)[1].at("kl").get<double>(), 0);
  EXPECT_LT(steps(near.out).back().at("reward").get<double>(), all.back().at("reward").get<double>());
  // In two parts, with another number of threads.
  ASSERT_EQ(toy(grpo + "--steps 12 --checkpoint-every 5 --threads 1 --time-limit 0.01s --out " + path("two")).code, 0);
  // A reward program may be given more time, which changes no number.
  const Result rest = toy(grpo + "--steps 12 --checkpoint-every 5 --reward-timeout 60 --resume --out " + path("two"));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_LT(steps(rest.out).size(), 12u);
  EXPECT_EQ(slurp(path("one/adapter.gguf")), slurp(path("two/adapter.gguf")));
  // A limit below what the model says: said once.
  const Result cut = toy("train grpo --model " + path("chat/model.gguf") + " --data " + path("tasks.jsonl") +
                         " --reward exact --group 4 --questions 5 --max-tokens 1 --steps 3 --out " + path("cut"));
  EXPECT_EQ(cut.code, 0) << cut.err;
  const std::string warning = "of the answers of a step were cut at --max-tokens 1; use a larger one";
  const size_t first = cut.err.find(warning);
  ASSERT_NE(first, cut.err.npos) << cut.err;
  EXPECT_EQ(cut.err.find(warning, first + 1), cut.err.npos) << cut.err;
}

// Several updates per step, killed while answers are drawn, while they are judged, while weights are updated and while
// a checkpoint is written: what is resumed ends with the same bytes.
TEST_F(CliGrpo, KilledInEveryPhaseItResumesToTheSameBytes) {
  const std::string m = model(), data = tasks();
  // A program that kills the run once, at its N-th answer, N being in a file; the run has the process id of its parent.
  const std::string script = write("r.sh", R"(while read line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\),.*/\1/')
  n=$(cat "$1" 2>/dev/null || echo 0)
  if [ "$n" -gt 0 ]; then n=$((n - 1)); echo $n > "$1"; [ $n -eq 0 ] && kill -9 $PPID; fi
  case "$line" in *'"text":"y'*) r=1;; *) r=0;; esac
  echo "{\"id\": $id, \"reward\": $r}"
done)");
  const std::string counter = path("counter");
  const std::string grpo = "train grpo --model " + m + " --data " + data + " --reward 'program:exec sh " + script +
                           " " + counter +
                           "' --group 4 --questions 3 --max-tokens 6 --rank 4 --lr 3e-3 --loss gspo "
                           "--num-iterations 3 --epsilon 0.01 --steps 5 --checkpoint-every 1 ";
  const Result r = toy(grpo + "--json --out " + path("one"));
  ASSERT_EQ(r.code, 0) << r.err;
  for (const json& s : steps(r.out)) {
    EXPECT_EQ(s.at("ratio_deviation"), 0.0);
    if (s.at("groups_mixed") == 0.0) continue;
    EXPECT_GT(s.at("ratio_drift").get<double>(), 0);
    EXPECT_GE(s.at("clip_share").get<double>(), 0);
  }
  const std::string wanted = slurp(path("one/adapter.gguf"));
  const auto resumes = [&](const std::string& out) {
    std::ofstream(counter) << 0 << "\n";
    const Result rest = toy(grpo + "--resume --out " + path(out));
    ASSERT_EQ(rest.code, 0) << out << rest.err;
    EXPECT_EQ(slurp(path(out + "/adapter.gguf")), wanted) << out;
  };
  // While answers are judged, in the first step and in a later one.
  for (const int answer : {1, 7, 12, 13, 30}) {
    std::ofstream(counter) << answer << "\n";
    const std::string out = "judged" + std::to_string(answer);
    EXPECT_NE(toy(grpo + "--out " + path(out)).code, 0) << answer;
    resumes(out);
  }
  // At any time: the moments are spread over the run.
  const double seconds = json::parse(r.out.substr(r.out.rfind('\n', r.out.size() - 2) + 1)).at("t").get<double>();
  for (int i = 1; i <= 6; ++i) {
    std::ofstream(counter) << 0 << "\n";
    const std::string out = "killed" + std::to_string(i);
    Running run(*this, out, grpo + "--out " + path(out));
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds * i / 7));
    run.send(SIGKILL);
    run.wait();
    resumes(out);
  }
}

// Held-out questions are asked as the other recipes validate: on the way and at the end, in events, on the terminal, in
// the report, for early stopping and the best checkpoint; and they change no weight.
TEST_F(CliGrpo, ValidatesAndIsKeptNearWithAllWeights) {
  const std::string m = model();
  const std::string held = write("held.jsonl", R"({"messages": [{"role": "user", "content": "q1"}], "answer": "yes"}
{"messages": [{"role": "user", "content": "what"}], "answer": "yes"}
{"messages": [{"role": "user", "content": "q4"}], "answer": "perhaps"}
)");
  const std::string grpo = "train grpo --model " + m + " --data " + tasks() +
                           " --reward exact --group 4 --questions 5 --max-tokens 6 --full --lr 2e-3 --beta 0.05 "
                           "--steps 8 --checkpoint-every 3 ";
  const std::string validation = "--val " + held + " --eval-every 2 ";
  const auto evals = [](const std::string& out) {
    std::vector<json> list;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);)
      if (json e = json::parse(line); e.at("kind") == "eval") e.erase("t"), list.push_back(e);
    return list;
  };
  const Result plain = toy(grpo + "--json --out " + path("plain"));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_TRUE(evals(plain.out).empty());
  EXPECT_EQ(steps(plain.out).front().at("kl"), 0.0);
  EXPECT_GT(steps(plain.out).back().at("kl").get<double>(), 0);
  const Result r = toy(grpo + validation + "--json --out " + path("one"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(slurp(path("plain/model.gguf")), slurp(path("one/model.gguf")));
  const std::vector<json> all = evals(r.out);
  ASSERT_EQ(all.size(), 4u) << r.out;
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].at("step"), 2 * (i + 1));
    EXPECT_TRUE(all[i].at("loss").is_null());
    EXPECT_EQ(all[i].at("whole"), true);
    const double reward = all[i].at("reward");
    EXPECT_NEAR(all[i].at("reward_error").get<double>(), std::sqrt(reward * (1 - reward) / 2), 1e-9);
  }
  // The last one is what the model says: two of three can be right.
  const Result asked = toy("eval generate " + path("one") + " " + held + " --n 6 --json");
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_NEAR(all.back().at("reward").get<double>(), json::parse(asked.out).at("accuracy").get<double>(), 1e-12);
  EXPECT_NE(r.err.find("step 8: validation reward "), r.err.npos) << r.err;
  ASSERT_EQ(toy("runs report " + path("one") + " --out " + path("report.html")).code, 0);
  EXPECT_NE(slurp(path("report.html")).find("Validation reward"), std::string::npos);
  const Result list = toy("runs list " + path("") + " --json");
  EXPECT_NE(list.out.find("\"validation_reward\":"), list.out.npos) << list.out;
  EXPECT_TRUE(fs::exists(path("one/checkpoints/best")));

  // Interrupted between a step and its validation, and resumed: the same validations, the same bytes.
  ASSERT_EQ(toy(grpo + validation + "--threads 1 --time-limit 0.01s --out " + path("two")).code, 0);
  const Result rest = toy(grpo + validation + "--json --resume --out " + path("two"));
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(slurp(path("one/model.gguf")), slurp(path("two/model.gguf")));
  EXPECT_EQ(evals(rest.out).back(), all.back());

  // A part of the questions on the way, all of them at the end; the last questions of --data.
  const Result part = toy(grpo + "--val-fraction 0.4 --eval-every 4 --eval-tokens 1 --json --out " + path("part"));
  ASSERT_EQ(part.code, 0) << part.err;
  const std::vector<json> parts = evals(part.out);
  ASSERT_EQ(parts.size(), 3u) << part.out;
  EXPECT_EQ(parts[0].at("whole"), false);
  EXPECT_EQ(parts[2].at("whole"), true);
  EXPECT_NE(slurp(path("part/model.gguf")), slurp(path("one/model.gguf")));  // it learned from the first three

  // Early stopping: nothing gets better where no answer can be right.
  const Result patient = toy("train grpo --model " + m + " --data " + path("tasks.jsonl") +
                             " --reward exact --group 4 --questions 5 --max-tokens 6 --rank 4 --steps 30 --val " +
                             write("never.jsonl", R"({"prompt": "x", "answer": "zzzz"})") +
                             " --eval-every 1 --patience 2 --json --out " + path("patient"));
  ASSERT_EQ(patient.code, 0) << patient.err;
  EXPECT_EQ(steps(patient.out).size(), 3u);
  EXPECT_NE(patient.out.find("\"reason\":\"patience\""), patient.out.npos);
}

TEST_F(CliGrpo, FullProgramsAndDryRun) {
  const std::string m = model();
  const std::string grpo =
      "train grpo --model " + m + " --data " + tasks() + " --group 4 --questions 5 --max-tokens 6 ";
  const Result dry = toy(grpo + "--reward exact --reward 'regex:.*' --dry-run");
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("reward of the right answer: 2 = exact 1, regex:.* 1"), std::string::npos) << dry.err;
  EXPECT_NE(dry.err.find("reward of no text: 1 = exact 0, regex:.* 1\n"), std::string::npos) << dry.err;
  const Result none = toy(grpo + "--reward regex:zzzz --dry-run");
  EXPECT_NE(none.err.find("of the first 5 questions, 5 give no reward for their right answer"), std::string::npos)
      << none.err;
  // The answer is "yes", of three bytes.
  EXPECT_EQ(dry.err.find("longer than --max-tokens"), std::string::npos) << dry.err;
  const Result cut = toy(grpo + "--reward exact --dry-run --max-tokens 2");
  EXPECT_NE(cut.err.find("of the first 5 questions, 5 have only answers longer than --max-tokens 2; use a larger one"),
            std::string::npos)
      << cut.err;
  // Rewards that are all below 0: no text gets -2, all others -1.
  const std::string below = write("below.sh", R"(while read line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\),.*/\1/')
  case "$line" in *'"text":""'*) r=-2;; *) r=-1;; esac
  echo "{\"id\": $id, \"reward\": $r}"
done)");
  const Result negative = toy(grpo + "--reward 'program:sh " + below + "' --dry-run");
  EXPECT_NE(negative.err.find("reward of the right answer: -1\n"), std::string::npos) << negative.err;
  EXPECT_NE(negative.err.find("the letter a: -1; a model can get it without being right"), std::string::npos);
  EXPECT_EQ(negative.err.find("no reward for their right answer"), std::string::npos) << negative.err;
  const Result all_equal = toy(grpo + "--reward '-1*finished' --dry-run");
  EXPECT_NE(all_equal.err.find("no right answer gets more than no text"), std::string::npos) << all_equal.err;
  const std::string script = write("r.sh", R"(while read line; do
  id=$(echo "$line" | sed 's/.*"id":\([0-9]*\),.*/\1/')
  case "$line" in *'"text":"y'*) r=1;; *) r=0;; esac
  echo "{\"id\": $id, \"reward\": $r}"
done)");
  const Result full =
      toy(grpo + "--full --steps 3 --lr 1e-3 --json --reward 'program:sh " + script + "' --out " + path("full"));
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_EQ(steps(full.out).size(), 3u);
  EXPECT_TRUE(fs::exists(path("full/model.gguf")));
  EXPECT_NE(slurp(path("full/model.gguf")), slurp(m));
}

TEST_F(CliGrpo, Refusals) {
  const std::string m = model(), grpo = "train grpo --model " + m + " --data " + tasks() + " --out " + path("no") + " ";
  refuses(grpo, {"reward"});
  refuses(grpo + "--reward exakt", {"Did you mean 'exact'?"});
  refuses(grpo + "--reward exact --full --rank 4", {"--rank", "--full"});
  refuses(grpo + "--reward exact --max-tokens 100000", {"max-tokens is 100000"});
  refuses(grpo + "--reward exact --group 1", {"--group"});
  for (const char* step :
       {"--temperature 0.5", "--temp=2", "--top-k 40", "--top-p 0.9", "--min-p 0.1", "--samplers top_k"})
    refuses(grpo + "--reward exact " + step, {"temperature 1", "all tokens"});
  for (const char* step : {"--presence-penalty 1", "--logit-bias 5=1"})
    refuses(grpo + "--reward exact " + step, {"temperature 1", "all tokens"});
  refuses(grpo + "--reward '0*exact'", {"'0'", "not 0"});
  refuses(grpo + "--reward exact --json-schema s.json", {"--reward json:FILE"});
  for (const char* other : {"--compute bf16", "--kv f16", "--dropout 0.1", "--lora-dropout 0.1"})
    refuses(grpo + "--reward exact " + other, {"other bits than training's"});
  refuses(grpo + "--reward exact --epsilon 0.1", {"epsilon", "--num-iterations"});
  refuses(grpo + "--reward exact --num-iterations 0", {"--num-iterations"});
  refuses(grpo + "--reward exact --eval-every 2", {"eval-every", "--val-fraction"});
  refuses(grpo + "--reward exact --eval-every 2 --patience 3", {"patience", "--val-fraction"});
  refuses(grpo + "--reward exact --eval-tokens 2", {"eval-tokens", "--val-fraction"});
  refuses(grpo + "--reward exact --val-fraction 0.1", {"val-fraction is 0.1", "of 5 questions"});
  refuses(grpo + "--reward exact --val-fraction 0.4 --val " + path("tasks.jsonl"), {"--val-fraction", "--val"});
  refuses(grpo + "--reward exact --val " + write("none.jsonl", R"({"prompt": "x"})"), {"none.jsonl", "answer"});
  refuses("train grpo --model " + m + " --reward exact --data " + write("bad.jsonl", R"({"prompt": "x"})"),
          {"bad.jsonl", "answer"});
  // Nothing to learn: no answer is ever right.
  const Result r = toy(grpo + "--reward regex:zzzz --group 2 --questions 2 --max-tokens 6 --steps 30");
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_NE(r.err.find("in 20 steps in a row"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("there is nothing to learn"), std::string::npos) << r.err;
  // The steps in a row are counted across checkpoints.
  const Result again = toy("train --resume --out " + path("no"));
  EXPECT_EQ(again.code, 2) << again.err;
  EXPECT_NE(again.err.find("in 21 steps in a row"), std::string::npos) << again.err;
}

TEST_F(CliGrpo, ARewardThatJudgesNothingIsNone) {
  const std::string script = write("null.sh", R"(while read -r line; do
  id=${line#*:}; echo "{\"id\": ${id%%,*}, \"reward\": null}"
done
)");
  const std::string grpo = "train grpo --model " + model() + " --data " + tasks() + " --reward 'program:sh " + script +
                           "' --group 2 --questions 2 --max-tokens 6 --steps 21 ";
  const Result r = toy(grpo + "--json --out " + path("one"));
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("no answer of the last one was judged (all rewards are null)"), std::string::npos) << r.err;
  for (const json& s : steps(r.out)) EXPECT_FALSE(s.contains("reward")) << s;
  const Result shown = toy(grpo + "--out " + path("two"));
  EXPECT_NE(shown.out.find("reward=none"), std::string::npos) << shown.out;
}

}  // namespace

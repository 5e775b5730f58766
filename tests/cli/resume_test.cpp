// toy train --resume: where there is nothing to resume, a complete run, or another one; with --out alone;
// after signals.
#include <chrono>
#include <thread>

#include "cli/checkpoint_fixture.h"

namespace {

using nlohmann::json;

class Resuming : public Checkpoints {
 protected:
  // Every file with its bytes and its time, but the lock.
  std::map<std::string, std::string> seen(const std::string& out) const {
    std::map<std::string, std::string> all;
    for (const auto& e : fs::recursive_directory_iterator(path(out)))
      if (e.is_regular_file() && e.path().filename() != ".lock")
        all[fs::relative(e.path(), path(out)).string()] =
            std::to_string(e.last_write_time().time_since_epoch().count()) + slurp(e.path());
    return all;
  }
  void says(const Result& r, const std::vector<std::string>& words) const {
    for (const std::string& w : words) EXPECT_NE(r.err.find(w), std::string::npos) << w << "\n" << r.err;
  }
  json last_event(const std::string& out) const {
    const std::string log = slurp(path(out + "/events.jsonl"));
    return json::parse(log.substr(log.rfind("\n{") + 1));
  }
};

TEST_F(Resuming, NothingToResumeIsSaid) {
  const Result r = toy(train("run", "--resume"));
  ASSERT_EQ(r.code, 0) << r.err;
  says(r, {"no checkpoint in " + path("run"), "step 1"});
  EXPECT_EQ(r.out.rfind("step 1:", 0), 0u);
  EXPECT_EQ(toy(train("other")).err.find("no checkpoint"), std::string::npos);  // nobody asked to resume
}

// As timeout(1) sends them to the program and its group, and a terminal that closes.
TEST_F(Resuming, SignalsThatComeTogetherAreOne) {
  const auto inherited = ::signal(SIGHUP, SIG_DFL);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    Running run(*this, "first", train("run", "--steps 3000 --checkpoint-every 0"));
    ASSERT_TRUE(run.wait_for("step 5:"));
    // A signal that is pending is sent once: the second has to come after the first was handled.
    run.send(number), std::this_thread::sleep_for(std::chrono::milliseconds(2)), run.send(number);
    EXPECT_EQ(run.wait().code, 128 + number);
    EXPECT_FALSE(fs::is_empty(path("run/checkpoints"))) << number;
    fs::remove_all(path("run"));
  }
  ::signal(SIGHUP, inherited);
}

// A model that a run replaces with --overwrite is still what it began with when the run is resumed.
TEST_F(Resuming, AWarmStartFromItsOwnFolderResumes) {
  ASSERT_EQ(toy(train("run", "--steps 1")).code, 0);
  const std::string options = " --batch 2 --tokens 8 --threads 1 --steps 600 --overwrite --corpus " + corpus_;
  fs::copy(path("run"), path("whole"), fs::copy_options::recursive);
  ASSERT_EQ(toy("train warm-start --init " + path("whole") + " --out " + path("whole") + options).code, 0);
  Running run(*this, "first", "train warm-start --init " + path("run") + " --out " + path("run") + options);
  ASSERT_TRUE(run.wait_for("step 3:"));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().code, 128 + SIGTERM);
  const Result resumed = toy("train --resume --out " + path("run"));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("resumed after step"), std::string::npos) << resumed.err;
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("whole/model.gguf")));
  const Result again = toy("train --resume --out " + path("run"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("this run is complete"), std::string::npos) << again.err;
}

// With and without checkpoints, stopped early, with an average: nothing is trained, nothing is written.
TEST_F(Resuming, ACompleteRunIsLeftAsItIs) {
  int i = 0;
  for (const std::string options :
       {"--checkpoint-every 0", "--checkpoint-every 2", "--eval-every 1 --patience 1 --min-delta 100", "--ema 0.9"}) {
    const std::string out = "run" + std::to_string(i++);
    ASSERT_EQ(toy(train(out, options)).code, 0);
    const auto before = seen(out);
    const Result again = toy(train(out, options + " --resume"));
    EXPECT_EQ(again.code, 0) << options << again.err;
    EXPECT_EQ(again.out, path(out) + "/model.gguf\n") << options;
    says(again, {path(out), "complete"});
    const Result lines = toy(train(out, options + " --resume --json --threads 2"));
    EXPECT_EQ(lines.code, 0) << lines.err;
    const json end = json::parse(lines.out);  // one line
    EXPECT_EQ(end.at("kind"), "run_end");
    EXPECT_EQ(end.at("model"), path(out) + "/model.gguf");
    const Result planned = toy(train(out, options + " --resume --dry-run --json"));
    EXPECT_EQ(planned.code, 0) << planned.err;
    EXPECT_EQ(json::parse(planned.out).at("steps"), 0);
    EXPECT_TRUE(seen(out) == before) << options;
  }
}

TEST_F(Resuming, AnotherRunsModelIsNotReplaced) {
  ASSERT_EQ(toy(train("run")).code, 0);
  const auto before = seen("run");
  const std::string model = path("run/model.gguf");
  refuses(train("run", "--resume --lr 0.01"), {model, "another run", "lr is 0.001 there and 0.01 here", "--out"});
  for (const char* longer : {"--resume --steps 6", "--resume --allow-changes --steps 6"})
    refuses(train("run", longer), {path("run"), "steps is 4 there and 6 here", "toy train warm-start --init "});
  refuses(train("run", "--resume --lr 0.01 --dry-run"), {model, "another run"});
  const std::string text = slurp(corpus_);
  std::string changed = text;
  changed[1000] = '#';
  write("corpus.txt", changed);
  refuses(train("run", "--resume"), {model, "texts.corpus.xxh64 is "});
  write("corpus.txt", text);
  // A model that no record belongs to may be anybody's.
  fs::rename(path("run/finished.json"), path("aside.json"));
  refuses(train("run", "--resume"), {model, "no checkpoint", "Use --overwrite"});
  fs::rename(path("aside.json"), path("run/finished.json"));
  EXPECT_TRUE(seen("run") == before);
  EXPECT_EQ(toy(train("run", "--lr 0.01 --overwrite")).code, 0);  // as it says
  EXPECT_FALSE(slurp(model) == before.at("model.gguf"));
}

// Whatever replaces the model takes its record away: a part of a run is not complete.
TEST_F(Resuming, ARecordGoesWithItsModel) {
  ASSERT_EQ(toy(train("run")).code, 0);
  ASSERT_EQ(toy(train("run", "--time-limit 0.000001s --overwrite")).code, 0);
  EXPECT_FALSE(fs::exists(path("run/finished.json")));
  const Result r = toy(train("run", "--resume"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.rfind("step 2:", 0), 0u) << r.out;
  EXPECT_EQ(json::parse(slurp(path("run/finished.json"))).at("step"), 4);
  // One that is malformed is said to be, with what to do about it.
  const json good = json::parse(slurp(path("run/finished.json")));
  rewind("run", 0);
  for (const char* text : {"[]", "{\"step\": 1e19}", "{\"step\": 4, \"config\": 3}", "hello"}) {
    write("run/finished.json", text);
    refuses(train("run", "--resume"), {path("run/finished.json")});
  }
  json bad = good;
  bad["reason"] = "fun";
  write("run/finished.json", bad.dump());
  refuses(train("run", "--resume"), {path("run/finished.json"), "'fun'", "remove this file"});
  // A record of other bytes than the model's is none.
  write("run/finished.json", good.dump());
  EXPECT_EQ(toy(train("run", "--resume")).code, 0);
  const std::string model = slurp(path("run/model.gguf"));
  write("run/model.gguf", model + "x");
  refuses(train("run", "--resume"), {"no record of a complete run"});
}

// Where there is a checkpoint, it is what counts.
TEST_F(Resuming, AMalformedRecordDoesNotStopARunWithCheckpoints) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2")).code, 0);
  const auto wanted = files("run");
  write("run/finished.json", "hello");
  const Result r = toy(train("run", "--checkpoint-every 2 --resume"));
  EXPECT_EQ(r.code, 0) << r.err;
  says(r, {path("run/finished.json"), path("run/checkpoints/step_000004")});
  expect_same_files("run", wanted, "resumed");
}

// A model that could not be written leaves the one before it, with its record.
TEST_F(Resuming, AFailedEndLeavesTheFinishedRun) {
  write("size.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 8000})");
  ASSERT_EQ(toy(train("run", "--steps 2")).code, 0);
  const auto before = files("run");
  const std::string line =
      "ulimit -f 500; " TOY_BINARY " " + train("run", "--steps 3 --overwrite") + " >" + path("o") + " 2>" + path("e");
  EXPECT_NE(std::system(line.c_str()), 0);
  EXPECT_NE(slurp(path("e")).find("model.gguf"), std::string::npos) << slurp(path("e"));
  expect_same_files("run", before, "after a failure");
  const Result r = toy(train("run", "--steps 2 --resume"));
  EXPECT_EQ(r.code, 0) << r.err;
  says(r, {"complete"});
}

// A new run in the folder takes the record's place as soon as it has a checkpoint to resume from.
TEST_F(Resuming, ACheckpointIsOfTheNewRun) {
  ASSERT_EQ(toy(train("run")).code, 0);
  const std::string model = slurp(path("run/model.gguf"));
  Running run(*this, "first", train("run", "--steps 1000000 --overwrite"));
  ASSERT_TRUE(run.wait_for("step 2:"));
  run.send(SIGINT);
  EXPECT_EQ(run.wait().code, 128 + SIGINT);
  EXPECT_FALSE(fs::exists(path("run/finished.json")));
  EXPECT_TRUE(slurp(path("run/model.gguf")) == model);
}

// Options that a complete run cannot follow; those that it had are no news.
TEST_F(Resuming, ACompleteRunSaysWhatItIgnores) {
  ASSERT_EQ(toy(train("run", "--tap 'blk.*:1'")).code, 0);
  const Result more = toy("train --resume --out " + path("run") + " --tensorboard " + path("board") + " --grads '*'");
  EXPECT_EQ(more.code, 0) << more.err;
  says(more, {"complete", "no effect: --tensorboard, --grads\n"});
  EXPECT_FALSE(fs::exists(path("board")));
  for (const std::string& again : {"train --resume --out " + path("run"), train("run", "--tap 'blk.*:1' --resume")})
    EXPECT_EQ(toy(again).err.find("no effect"), std::string::npos) << again;
}

// A complete warm start belongs to the bytes that it began with.
TEST_F(Resuming, AWarmStartFromAnotherModelOfTheSameName) {
  ASSERT_EQ(toy(train("first")).code, 0);
  const std::string warm = "train warm-start --corpus " + corpus_ + " --init " + path("first/model.gguf") +
                           " --batch 2 --tokens 8 --steps 2 ";
  ASSERT_EQ(toy(warm + "--out " + path("run")).code, 0);
  ASSERT_EQ(toy(warm + "--checkpoint-every 1 --out " + path("kept")).code, 0);
  says(toy(warm + "--resume --out " + path("run")), {"complete"});
  ASSERT_EQ(toy(train("first", "--seed 3 --overwrite")).code, 0);
  for (const char* out : {"run", "kept"}) {
    const auto before = seen(out);
    refuses(warm + "--resume --out " + path(out), {path("first/model.gguf"), "changed"});
    EXPECT_TRUE(seen(out) == before);
  }
  // An unfinished run has its weights.
  rewind("kept", 1);
  EXPECT_EQ(toy(warm + "--resume --out " + path("kept")).code, 0);
}

// The model that a warm start begins with may be the one that it replaces; once it is complete it is not repeated.
TEST_F(Resuming, AWarmStartInItsOwnFolder) {
  ASSERT_EQ(toy(train("run")).code, 0);
  const std::string warm = "train warm-start --corpus " + corpus_ + " --init " + path("run/model.gguf") +
                           " --batch 2 --tokens 8 --steps 2 --out " + path("run") + " --resume";
  const std::string first = slurp(path("run/model.gguf"));
  const Result r = toy(warm);
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string second = slurp(path("run/model.gguf"));
  EXPECT_FALSE(second == first);
  const Result again = toy(warm);
  EXPECT_EQ(again.code, 0) << again.err;
  says(again, {"complete"});
  EXPECT_TRUE(slurp(path("run/model.gguf")) == second);
}

TEST_F(Resuming, WithTheFolderAlone) {
  const std::string options =
      "--steps 5 --tokenizer spm:300 --name 'two words' --schedule linear --dropout 0.1 --lr-for "
      "'blk.*=0.5' --no-decay '*norm*' --no-decay 'blk.0.*' --eval-every 2";
  const Result whole = toy(train("whole", options));
  ASSERT_EQ(whole.code, 0) << whole.err;
  for (const std::string how : {"train --resume --out=", "train from-scratch --resume --out "}) {
    fs::remove_all(path("run"));
    ASSERT_EQ(toy(train("run", options + " --time-limit 0.000001s")).code, 0);
    for (int part = 0; part < 10 && !fs::exists(path("run/finished.json")); ++part) {
      const Result r = toy(how + path("run"));
      ASSERT_EQ(r.code, 0) << r.err;
    }
    EXPECT_TRUE(slurp(path("run/model.gguf")) == slurp(path("whole/model.gguf"))) << how;
    const Result done = toy(how + path("run"));
    EXPECT_EQ(done.out, path("run") + "/model.gguf\n") << done.err;
  }
  // Options override, and are checked as ever.
  rewind("run", 3);
  refuses("train --resume --out " + path("run") + " --lr 0.5", {"another run", "lr is 0.001 there and 0.5 here"});
  const Result told = toy("train --resume --allow-changes --out " + path("run") + " --lr 0.5 --time-limit 1h");
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(told.out.rfind("step 4:", 0), 0u) << told.out;
  // Which is not inherited: the options are the new ones now.
  rewind("run", 3);
  refuses("train --resume --out " + path("run"), {"another run", "lr is 0.001 there and 0.5 here"});
}

TEST_F(Resuming, AWarmStartWithTheFolderAlone) {
  ASSERT_EQ(toy(train("first")).code, 0);
  const auto warm = [&](const std::string& out, const std::string& more) {
    return toy("train warm-start --corpus " + corpus_ + " --init " + path("first/model.gguf") +
               " --batch 2 --tokens 8 --steps 2 --out " + path(out) + more);
  };
  ASSERT_EQ(warm("whole", "").code, 0);
  ASSERT_EQ(warm("run", " --time-limit 0.000001s").code, 0);
  const Result r = toy("train --resume --out " + path("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(slurp(path("run/model.gguf")) == slurp(path("whole/model.gguf")));
}

TEST_F(Resuming, AFolderAloneThatCannotBeResumed) {
  refuses("train --resume --out " + path("none"), {"there is no folder '" + path("none")});
  fs::create_directory(path("empty"));
  refuses("train --resume --out " + path("empty"), {path("empty"), "config.json", "recipe"});
  refuses("train from-scratch --resume --out " + path("none"), {"--corpus"});
  // Paths are those of the folder where the run was started.
  const std::string here = "cd " + path() + " && " TOY_BINARY " ";
  fs::create_directory(path("elsewhere"));
  ASSERT_EQ(
      std::system((here + "train from-scratch --corpus corpus.txt --size size.json --batch 2 --tokens 8 --steps 2 "
                          "--time-limit 0.000001s --out run >o 2>e")
                      .c_str()),
      0)
      << slurp(path("e"));
  refuses("train --resume --out " + path("run"), {path("run/config.json"), "'corpus.txt'", "--corpus"});
  const Result r = toy("train --resume --out " + path("run") + " --corpus " + corpus_ + " --size " + size_);
  EXPECT_EQ(r.code, 2) << r.err;  // the size's path is a part of the recipe
  says(r, {"recipe.size is "});
  EXPECT_EQ(std::system((here + "train --resume --out run >o 2>e").c_str()), 0) << slurp(path("e"));
  EXPECT_TRUE(fs::exists(path("run/finished.json")));
  EXPECT_NE(std::system((here + "train --resume --out none >o 2>e").c_str()), 0);
  EXPECT_NE(slurp(path("e")).find("there is no folder 'none'; the runs here: run"), std::string::npos)
      << slurp(path("e"));
  write("run/config.json", "[1]");
  refuses("train --resume --out " + path("run"), {path("run/config.json"), "JSON object"});
  write("run/config.json", R"({"strange": 1})");
  refuses("train --resume --out " + path("run"), {path("run/config.json"), "recipe"});
  write("run/config.json", "{}");
  refuses("train --resume --out " + path("run"), {path("run/config.json"), "'corpus'"});
  refuses("train from-scratch --resume=false --out " + path("run"), {"--corpus"});
  EXPECT_EQ(slurp(path("stderr")).find("config.json"), std::string::npos);  // nobody asked to resume
}

// --eval-tokens without --eval-every: the validation at the end reads that much, and nothing else changes.
TEST_F(Resuming, TheLastValidationCanBeLimited) {
  const std::string options = "--steps 3 --eval-every 0";
  const auto evals = [&](const std::string& out) {
    std::vector<json> list;
    std::istringstream log(slurp(path(out + "/events.jsonl")));
    for (std::string line; std::getline(log, line);)
      if (json e = json::parse(line); e.at("kind") == "eval") list.push_back(e);
    return list;
  };
  const auto run = [&](const std::string& out, const std::string& more) {
    const Result r = toy(train(out, options + more));
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  const Result all = run("all", ""), part = run("part", " --eval-tokens 40 --checkpoint-every 3");
  EXPECT_EQ(all.out.substr(0, all.out.rfind('\n', all.out.size() - 2)),
            part.out.substr(0, part.out.rfind('\n', part.out.size() - 2)));
  EXPECT_TRUE(slurp(path("all/model.gguf")) == slurp(path("part/model.gguf")));
  ASSERT_EQ(evals("all").size(), 1u);
  ASSERT_EQ(evals("part").size(), 1u);
  EXPECT_EQ(evals("all")[0].at("whole"), true);
  EXPECT_EQ(evals("part")[0].at("whole"), false);
  EXPECT_NE(evals("all")[0].at("loss"), evals("part")[0].at("loss"));
  // Resumed at its end it is not measured again; at a time limit as much is read.
  rewind("part", 3);
  run("part", " --eval-tokens 40 --checkpoint-every 3 --resume");
  EXPECT_EQ(evals("part").size(), 1u);
  run("limit", " --eval-tokens 40 --time-limit 0.000001s");
  ASSERT_EQ(evals("limit").size(), 1u);
  EXPECT_EQ(evals("limit")[0].at("whole"), false);
}

// What was printed could not be written: the log has the exit code that the program has.
TEST_F(Resuming, TheLogKnowsThatStdoutWasFull) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2")).code, 0);
  for (const char* more : {"", " --json"}) {
    rewind("run", 4);  // what is left is the model, and its path on stdout
    const std::string line =
        TOY_BINARY " " + train("run", "--checkpoint-every 2 --resume") + more + " >/dev/full 2>" + path("stderr");
    const int status = std::system(line.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << slurp(path("stderr"));
    EXPECT_EQ(last_event("run").at("kind"), "run_end");
    EXPECT_EQ(last_event("run").at("exit_code"), 1) << more;
    EXPECT_EQ(last_event("run").at("reason"), "done");
  }
}

}  // namespace

// toy train --checkpoint-every, --resume, --accumulate; Ctrl-C; two runs in one folder; damage.
#include <future>

#include "cli/checkpoint_fixture.h"

namespace {

using nlohmann::json;

// Lines `step N: ...` of N > step, and what follows them.
std::string behind(const std::string& out, int step) {
  const size_t at = out.find("step " + std::to_string(step + 1) + ": ");
  return at == std::string::npos ? out.substr(out.rfind('\n', out.size() - 2) + 1) : out.substr(at);
}

// Paths of another run's folder become this one's.
std::string renamed(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST_F(Checkpoints, LayoutAndWhatIsKept) {
  const Result r = toy(train("run", "--steps 8 --checkpoint-every 1 --keep 2 --eval-every 0"));
  ASSERT_EQ(r.code, 0) << r.err;
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(path("run/checkpoints"))) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"best", "step_000007", "step_000008"}));
  for (const char* file : {"config.json", "manifest", "state.json", "state.safetensors", "weights.gguf"})
    EXPECT_TRUE(fs::exists(path("run/checkpoints/step_000008/") + file)) << file;
  const json state = json::parse(slurp(path("run/checkpoints/step_000008/state.json")));
  EXPECT_EQ(state.at("step"), 8);
  EXPECT_EQ(state.at("windows"), 16);
  EXPECT_EQ(fs::read_symlink(path("run/checkpoints/best")), "step_000008");
  // One file, two names.
  EXPECT_TRUE(fs::equivalent(path("run/model.gguf"), path("run/weights/latest.gguf")));
  EXPECT_EQ(toy("describe " + path("run/checkpoints/best/weights.gguf")).code, 0);
}

TEST_F(Checkpoints, TheBestStaysBesideTheLast) {
  // At this rate the model unlearns what it knew: the first evaluation is the best.
  const Result r = toy(train("run",
                             "--steps 6 --optimizer sgd --lr 3 --schedule constant --warmup 0 --clip 0 --eval-every 1 "
                             "--eval-tokens 0 --checkpoint-every 2 --keep 1"));
  ASSERT_EQ(r.code, 0) << r.err;
  const std::string best = fs::read_symlink(path("run/checkpoints/best")).string();
  ASSERT_EQ(best, "step_000001");
  EXPECT_TRUE(fs::exists(path("run/checkpoints/" + best + "/manifest")));
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step_000006/manifest")));
  const json state = json::parse(slurp(path("run/checkpoints/step_000006/state.json")));
  EXPECT_LT(state.at("best").at("loss"), state.at("eval").at("loss"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("run/checkpoints")), {}), 3);
}

// Where validations read a part of the text, the best is found on that part, at the last step as at any other.
TEST_F(Checkpoints, TheBestIsFoundOnOnePartOfTheText) {
  const std::string options =
      "--eval-every 2 --eval-tokens 40 --checkpoint-every 2 --keep 5 --schedule constant --warmup 0 --lr 0.01 --steps ";
  const Result four = toy(train("four", options + "4")), five = toy(train("five", options + "5"));
  ASSERT_EQ(four.code + five.code, 0) << four.err << five.err;
  EXPECT_EQ(fs::read_symlink(path("four/checkpoints/best")), "step_000004");
  const json end = json::parse(slurp(path("four/checkpoints/step_000004/state.json"))),
             on_the_way = json::parse(slurp(path("five/checkpoints/step_000004/state.json")));
  EXPECT_EQ(end.at("best"), on_the_way.at("best"));
  EXPECT_EQ(end.at("least"), on_the_way.at("least"));
  EXPECT_FALSE(end.at("best").at("whole"));
  EXPECT_TRUE(end.at("eval").at("whole"));
  const json shown = json::parse(toy("runs show --json " + path("four")).out);
  EXPECT_EQ(shown.at("best_validation_loss"), end.at("best").at("loss")) << shown.dump();
  EXPECT_EQ(shown.at("validation_loss"), end.at("eval").at("loss"));
}

// One run, told to stop after step 3 by a signal, and then resumed by the command that it printed.
TEST_F(Checkpoints, CtrlCAndTermSaveAndSayHowToResume) {
  const std::string options = "--steps 600 --eval-every 100 --sample 4 --name 'two words'";
  const Result whole = toy(train("whole", options));
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto inherited = ::signal(SIGHUP, SIG_DFL);  // these tests may run under nohup
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Running run(*this, "first", train("run", options));
    ASSERT_TRUE(run.wait_for("step 3:"));
    run.send(number);
    const Result first = run.wait();
    EXPECT_EQ(first.code, 128 + number) << first.err;
    const size_t to_go_on = first.err.find(":\n  toy train ");
    EXPECT_NE(first.err.find(" in the folder " + fs::current_path().string() + ":\n"), std::string::npos);
    ASSERT_NE(to_go_on, std::string::npos) << first.err;
    EXPECT_FALSE(fs::exists(path("run/model.gguf")));
    std::string command = first.err.substr(to_go_on + std::string(":\n  toy ").size());
    command.pop_back();  // the line's end
    EXPECT_NE(command.find(" --resume"), std::string::npos) << command;
    const Result second = toy(command);
    ASSERT_EQ(second.code, 0) << command << "\n" << second.err;
    EXPECT_EQ(first.out + second.out, renamed(whole.out, path("whole"), path("run")));
    EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("whole/model.gguf")));
    fs::remove_all(path("run"));
  }
  ::signal(SIGHUP, inherited);
}

// As a signal, from elsewhere; asking again forces nothing.
TEST_F(Checkpoints, RunsStopSavesACheckpoint) {
  const std::string options = "--steps 300 --checkpoint-every 100";
  const Result whole = toy(train("whole", options));
  Running run(*this, "first", train("run", options));
  ASSERT_TRUE(run.wait_for("step 3:"));
  const std::string stop = "runs stop " + path("run");
  for (int i = 0; i < 3; ++i) {
    const Result asked = toy(stop + " --no-wait --json");
    if (asked.code == 2 && asked.err.find("has ended") != std::string::npos) break;  // it was quick
    ASSERT_EQ(asked.code, 0) << asked.err;
    EXPECT_FALSE(json::parse(asked.out).at("ended"));
  }
  auto ended = std::async(std::launch::async, [&] { return run.wait().code; });
  const Result last = toy(stop + " --json");
  const int code = ended.get();
  if (code == 0) GTEST_SKIP() << "on this busy machine all steps were done before the run was asked to stop";
  EXPECT_EQ(code, 128 + SIGTERM);
  if (last.code == 0) EXPECT_EQ(json::parse(last.out).at("reason"), "stopped") << last.out;  // else it had ended
  refuses(stop, {"has ended", "toy runs show"});
  refuses("runs stop " + path("nothing"), {"nothing"});
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
  ASSERT_EQ(toy(train("run", options + " --resume")).code, 0);
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("whole/model.gguf")));
}

TEST_F(Checkpoints, ATimeLimitLeavesACheckpoint) {
  const std::string options = "--steps 1000000 --schedule constant --json --time-limit ";
  const auto steps = [](const Result& r) {
    std::vector<int64_t> list;
    std::istringstream lines(r.out);
    for (std::string line; std::getline(lines, line);)
      if (const auto j = nlohmann::json::parse(line); j.at("kind") == "step") list.push_back(j.at("step"));
    return list;
  };
  const Result first = toy(train("run", options + "0.2s"));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find("--time-limit is reached"), std::string::npos) << first.err;
  EXPECT_NE(first.err.find(":\n  toy train "), std::string::npos) << first.err;
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
  const Result second = toy(train("run", options + "0.1s --resume"));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(steps(second).front(), steps(first).back() + 1);
}

// What is validated because the clock ends a part is not the run's: neither early stopping nor `best` takes notice.
TEST_F(Checkpoints, ATimeLimitChangesNoByte) {
  const std::string options =
      "--steps 60 --eval-every 10 --eval-tokens 40 --patience 2 --min-delta 100 --checkpoint-every 10";
  const Result whole = toy(train("whole", options));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("step 30:"), std::string::npos);
  EXPECT_EQ(whole.out.find("step 31:"), std::string::npos);  // the first one and two that were no better
  std::string last;
  for (int part = 0; part < 40; ++part) {
    const Result r = toy(train("run", options + " --time-limit 0.000001s --resume"));
    ASSERT_EQ(r.code, 0) << r.err;
    if (r.err.find("--time-limit is reached") == std::string::npos) break;
    last = r.err;
  }
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("whole/model.gguf"))) << last;
  EXPECT_EQ(fs::read_symlink(path("run/checkpoints/best")), fs::read_symlink(path("whole/checkpoints/best")));
}

// The command that is printed is one that works.
TEST_F(Checkpoints, TheWayToGoOnHoldsEmptyValues) {
  const Result r = toy(train("run/", "--name '' --steps 1000000 --schedule constant --time-limit 0.000001s"));
  ASSERT_EQ(r.code, 0) << r.err;
  const size_t at = r.err.find("toy train ");
  ASSERT_NE(at, std::string::npos) << r.err;
  const Result again = toy(r.err.substr(at + 4, r.err.find('\n', at) - at - 4));
  EXPECT_EQ(again.code, 0) << again.err;
  std::istringstream log(slurp(path("run/events.jsonl")));
  std::string line;
  std::getline(log, line);
  EXPECT_EQ(json::parse(line).at("run_id"), "run");
}

// The disk has to hold what there will be.
TEST_F(Checkpoints, ManyToKeepOfFewAreFew) {
  const Result r = toy(train("run", "--steps 2 --checkpoint-every 1 --keep 100000000"));
  EXPECT_EQ(r.code, 0) << r.err;
}

TEST_F(Checkpoints, ResumeWantsAFolderThatStays) {
  refuses(train("run-{seq}", "--resume"), {"resume: --out is", "{seq} names a new folder each time"});
  refuses(train("run-{time}", "--resume"), {"{time} names a new folder each time"});
}

// Without the signal being set aside, the system kills a program whose file grows beyond the limit.
TEST_F(Checkpoints, ALimitOfFileSizesIsAMessage) {
  const std::string command = "ulimit -f 20; " TOY_BINARY " " + train("run", "--steps 3 --checkpoint-every 1") + " >" +
                              path("o") + " 2>" + path("e") + " </dev/null";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 2) << slurp(path("e"));
  EXPECT_NE(slurp(path("e")).find("ulimit -f"), std::string::npos) << slurp(path("e"));
}

TEST_F(Checkpoints, ASecondCtrlCEndsAtOnceAndHarmlessly) {
  const std::string options = "--steps 300 --checkpoint-every 30";
  const Result whole = toy(train("whole", options));
  Running run(*this, "first", train("run", options));
  ASSERT_TRUE(run.wait_for("step 5:"));
  run.send(SIGINT), run.send(SIGTERM), run.send(SIGINT);
  EXPECT_GE(run.wait().code, 128);
  const Result second = toy(train("run", options + " --resume"));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(renamed(whole.out, path("whole"), path("run")).ends_with(second.out));
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("whole/model.gguf")));
}

TEST_F(Checkpoints, ResumeBeginsWhereThereIsNothingAndEndsWhereAllIsDone) {
  const std::string command = train("run", "--checkpoint-every 2 --resume");
  const Result first = toy(command), again = toy(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.out.rfind("step 1:", 0), 0u);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, path("run") + "/model.gguf\n");
}

TEST_F(Checkpoints, JsonLinesOfAResumedRun) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2")).code, 0);
  rewind("run", 2);
  const Result r = toy(train("run", "--checkpoint-every 2 --resume --json"));
  ASSERT_EQ(r.code, 0) << r.err;
  std::istringstream lines(r.out);
  std::vector<std::string> kinds;
  json last;
  for (std::string line; std::getline(lines, line);) {
    kinds.push_back((last = json::parse(line)).at("kind"));
    EXPECT_NE(slurp(path("run/events.jsonl")).find("\n" + line + "\n"), std::string::npos)
        << "not in the log: " << line;
  }
  std::erase_if(kinds, [](const std::string& kind) { return kind.starts_with("region_"); });
  EXPECT_EQ(kinds, (std::vector<std::string>{"resume", "step", "step", "eval", "eval", "checkpoint", "run_end"}));
  EXPECT_EQ(last.at("checkpoint"), path("run/checkpoints/step_000004"));
}

// For every option that changes a number: the difference is shown, with both values.
TEST_F(Checkpoints, OtherOptionsAreRefusedWithTheDifference) {
  ASSERT_EQ(toy(train("run", "--steps 6 --checkpoint-every 2 --keep 9")).code, 0);
  rewind("run", 4);
  const std::vector<std::pair<std::string, std::string>> changes{
      {"--lr 0.01", "options.lr is 0.001 there and 0.01 here"},
      {"--seed 1", "options.seed is 0 there and 1 here"},
      {"--batch 4", "options.batch is 2 there and 4 here"},
      {"--tokens 4", "options.tokens is 8 there and 4 here"},
      {"--accumulate 2", "options.accumulate is 1 there and 2 here"},
      {"--steps 8", "options.steps is 6 there and 8 here"},
      {"--warmup 1", "options.warmup is -1 there and 1 here"},
      {"--final-lr 0.5", "options.final_lr is 0.1 there and 0.5 here"},
      {"--weight-decay 0.2", "options.optimizer.weight_decay is 0.1 there and 0.2 here"},
      {"--clip 2", "options.optimizer.clip is 1.0 there and 2.0 here"},
      {"--optimizer 'adamw(beta1=0.5)'", "options.optimizer.beta1 is 0.9 there and 0.5 here"},
      {"--optimizer sgd", "options.optimizer.kind is \"adamw\" there and \"sgd\" here"},
      {"--schedule linear", "options.schedule is \"cosine\" there and \"linear\" here"},
      {"--dropout 0.1", "options.dropout is 0.0 there and 0.1 here"},
      {"--eval-every 3", "options.eval_every is 2 there and 3 here"},
      {"--eval-tokens 50", "options.eval_tokens is 40 there and 50 here"},
      {"--sample 3", "options.sample_tokens is 0 there and 3 here"},
      {"--dtype f16", "options.stored is \"f32\" there and \"f16\" here"},
      {"--val-fraction 0.1", "options.validation_fraction is 0.05 there and 0.1 here"},
      {"--name other", "options.name is \"\" there and \"other\" here"},
      {"--context 64", "options.context is 0 there and 64 here"},
      {"--init-scale 2", "recipe.init_scale is 1.0 there and 2.0 here"},
      {"--tokenizer spm:300", "recipe.tokenizer is \"bytes\" there and \"spm:300\" here"},
      {"--device reference", "device is \"cpu\" there and \"reference\" here"},
      {"--clip 0 --update streaming", "options.updates is \"gathered\" there and \"streaming\" here"},
      {"--val " + write("val.txt", "the cat sat on the mat and was glad"), "texts.validation.xxh64 is absent there"},
  };
  const auto resume = [&](const std::string& option) {
    return train("run", (option.starts_with("--steps") ? "" : "--steps 6 ") + option + " --resume");
  };
  for (const auto& [option, difference] : changes)
    refuses(resume(option),
            {"resume: " + path("run/checkpoints/step_000004") + " is of another run", difference, "or another --out"});
  write("size.json", R"({"d_model": 16, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 24})");
  refuses(resume(""), {"model.", " there and ", "Its weights have other sizes"});
  // What changes no number may change.
  write("size.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 24})");
  const Result r = toy(resume("--threads 2 --keep 1 --checkpoint-every 0"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out.rfind("step 5:", 0), 0u);
}

TEST_F(Checkpoints, AnotherDeviceIsRefusedUnlessTold) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2 --keep 9")).code, 0);
  rewind("run", 2);
  const std::string resume = train("run", "--checkpoint-every 2 --resume --device emulated"),
                    bits = "; sums round differently there, so bits may differ";
  refuses(resume, {"device is \"cpu\" there and \"emulated\" here", bits + ". Give the options", "--allow-changes"});
  EXPECT_NE(toy(resume + " --allow-changes").err.find(bits + "\n"), std::string::npos);
}

TEST_F(Checkpoints, AnotherCorpusOrVersionIsRefusedUnlessTold) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2 --keep 9")).code, 0);
  rewind("run", 2);
  const std::string resume = train("run", "--checkpoint-every 2 --resume");
  const std::string text = slurp(corpus_), moved = path("moved.txt");
  fs::rename(corpus_, moved);
  refuses(resume, {"corpus.txt", "no such file"});
  std::string changed = text;
  changed[1000] = '#';
  write("corpus.txt", changed);
  refuses(resume, {"texts.corpus.xxh64 is ", " there and ", " here"});
  const Result told = toy(resume + " --allow-changes");
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_EQ(told.out.rfind("step 3:", 0), 0u);
  EXPECT_NE(told.err.find("resuming " + path("run/checkpoints/step_000002") + " with changes: texts.corpus.xxh64"),
            std::string::npos)
      << told.err;
  refuses(train("run", "--allow-changes"), {"allow-changes", "resume"});
  refuses(train("run", "--resume --allow-changes --steps 3"), {"step_000004 is after step 4, --steps is 3"});
  refuses(resume + " --allow-changes --optimizer sgd", {"step_000004 has the state of another optimizer"});
  const Result wider = toy(resume + " --allow-changes --device reference");
  EXPECT_EQ(wider.code, 2);
  EXPECT_NE(wider.err.find("device was another"), std::string::npos) << wider.err;
}

// Names of other bytes than UTF-8 are names; in JSON they have a mark in place of what is none.
TEST_F(Checkpoints, NamesThatAreNotUtf8) {
  const std::string corpus = "$(printf '" + path("t\\377.txt") + "')";
  ASSERT_EQ(std::system(("cp " + corpus_ + " \"" + corpus + "\"").c_str()), 0);
  const std::string command = train("run", "--steps 4 --checkpoint-every 2 --name \"$(printf 'x\\377')\" ");
  std::string other = command;
  other.replace(other.find(corpus_), corpus_.size(), "\"" + corpus + "\"");
  const Result whole = toy(other);
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto wanted = files("run");
  EXPECT_EQ(json::parse(slurp(path("run/checkpoints/step_000004/config.json"))).at("options").at("name"),
            "x\xEF\xBF\xBD");
  rewind("run", 2);
  fs::remove(path("run/model.gguf"));
  const Result resumed = toy(other + "--resume");  // the same name: no difference
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_same_files("run", wanted, "resumed");
}

// Whoever reads stdout goes away, or its disk is full: the run is saved as by Ctrl-C, and fails.
TEST_F(Checkpoints, ALostOutputEndsTheRunInOrder) {
  const std::string options = "--steps 3000 --checkpoint-every 1000 --eval-every 0 ";
  for (const std::string& more : {options, options + "--json "})
    for (const std::string& to : {" | head -c 300 >" + path("stdout"), std::string(" >/dev/full")}) {
      fs::remove_all(path("run"));
      const std::string line = "(" + std::string(TOY_BINARY) + " " + train("run", more) + " 2>" + path("stderr") +
                               "; echo $? >" + path("code") + ")" + to;
      ASSERT_EQ(std::system(line.c_str()), 0);
      const std::string err = slurp(path("stderr"));
      EXPECT_EQ(slurp(path("code")), "1\n") << line << "\n" << err;
      EXPECT_NE(err.find("stopped after step "), std::string::npos) << err;
      EXPECT_NE(err.find("stdout cannot be written"), std::string::npos) << err;
      EXPECT_NE(err.find(" --resume "), std::string::npos) << err;
      EXPECT_EQ(std::distance(fs::directory_iterator(path("run/checkpoints")), {}), 1) << line;
      const std::string log = slurp(path("run/events.jsonl"));
      const json end = json::parse(log.substr(log.rfind("\n{") + 1));
      EXPECT_EQ(end.at("reason"), "stopped");
      EXPECT_EQ(end.at("exit_code"), 1);
    }
}

// A log that holds nothing, or is none, does not keep a whole checkpoint from going on.
TEST_F(Checkpoints, ALogThatCannotBeReadIsPutAside) {
  const std::string command = train("run", "--checkpoint-every 2 ");
  ASSERT_EQ(toy(command).code, 0);
  const auto wanted = files("run");
  for (const std::string text : {"", "hello\nthere\n"}) {
    rewind("run", 2);
    fs::remove(path("run/events.previous.jsonl"));
    write("run/events.jsonl", text);
    const Result r = toy(command + "--resume");
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.err.find("it is now " + path("run/events.previous.jsonl")), std::string::npos) << r.err;
    EXPECT_EQ(slurp(path("run/events.previous.jsonl")), text);
    fs::remove(path("run/events.previous.jsonl"));
    expect_same_files("run", wanted, "resumed");
    const json shown = json::parse(toy("runs show " + path("run") + " --json").out);
    EXPECT_EQ(shown.at("steps"), 4);
    EXPECT_FALSE(shown.at("model").is_null());  // a log of its own, with its beginning
  }
}

// What a run is told when it goes on is what counts.
TEST_F(Checkpoints, AResumedRunMayHaveAnotherNumberOfSteps) {
  ASSERT_EQ(toy(train("run", "--steps 4 --checkpoint-every 2 ")).code, 0);
  const Result r = toy(train("run", "--steps 6 --checkpoint-every 2 --resume --allow-changes "));
  ASSERT_EQ(r.code, 0) << r.err;
  const json shown = json::parse(toy("runs show " + path("run") + " --json").out);
  EXPECT_EQ(shown.at("step"), 6);
  EXPECT_EQ(shown.at("steps"), 6);
}

TEST_F(Checkpoints, AFileInPlaceOfTheFolder) {
  fs::create_directories(path("run"));
  write("run/checkpoints", "mine");
  refuses(train("run", "--checkpoint-every 2"), {path("run/checkpoints"), "is not a folder"});
  EXPECT_FALSE(fs::exists(path("run/events.jsonl")));
}

TEST_F(Checkpoints, AnEarlierRunIsNotWrittenOver) {
  ASSERT_EQ(toy(train("run", "--checkpoint-every 2")).code, 0);
  const auto before = files("run");
  refuses(train("run", "--checkpoint-every 2"), {path("run"), "earlier run", "--resume", "another --out"});
  expect_same_files("run", before, "refused");
}

TEST_F(Checkpoints, BadValues) {
  refuses(train("run", "--checkpoint-every -1"), {"--checkpoint-every is -1", "0 or more"});
  refuses(train("run", "--keep 0"), {"--keep is 0", "1 or more"});
  refuses(train("run", "--accumulate 0"), {"--accumulate is 0", "1 or more"});
  refuses(train("run", "--accumulate 1000000000"), {"accumulate is 1000000000", "use at most 134217727"});
  refuses(train("run", "--accumulate 2 --clip 0 --update streaming"), {"accumulate is 2", "leave out --accumulate"});
}

// Accumulation: other bytes than the batch that it stands for, the same windows, nearly the same losses; it resumes.
TEST_F(Checkpoints, AccumulationSeesTheSameWindows) {
  const auto first_loss = [&](const std::string& options) {
    const Result r = toy(train("run", options + " --steps 1 --json --overwrite"));
    EXPECT_EQ(r.code, 0) << r.err;
    const size_t at = r.out.find("\"loss\":");
    return std::stod(r.out.substr(at + 7));
  };
  const double batch = first_loss("--batch 8"), accumulated = first_loss("--batch 2 --accumulate 4");
  // A sum of 64 terms in two orders, each within 64 u of the exact one.
  EXPECT_NEAR(accumulated, batch, 2 * 64 * 0x1p-24 * batch);
}

TEST_F(Checkpoints, TwoRunsInOneFolder) {
  Running run(*this, "first", train("run", "--steps 1000000"));
  ASSERT_TRUE(run.wait_for("step 2:"));
  for (const char* more : {"", "--resume"}) {
    const Result r = toy(train("run", more));
    EXPECT_EQ(r.code, 2);
    EXPECT_NE(r.err.find(path("run") + ": another run (process "), std::string::npos) << r.err;
  }
}

// A flipped bit, a file cut off, a file gone: the checkpoint before it is used, which is said, and the end is the same.
TEST_F(Checkpoints, TheOneBeforeADamagedOneIsUsed) {
  const std::string options = "--checkpoint-every 1 --keep 3 --eval-every 0";
  ASSERT_EQ(toy(train("whole", options)).code, 0);
  const auto damage = [&](const std::string& name, const std::function<void(std::string&)>& change) {
    std::string bytes = slurp(path(name));
    change(bytes);
    write(name, bytes);
  };
  const std::string newest = "run/checkpoints/step_000004/";
  const std::vector<std::pair<std::string, std::function<void()>>> ways{
      {"weights.gguf is damaged",
       [&] { damage(newest + "weights.gguf", [](std::string& b) { b[b.size() / 2] ^= 1; }); }},
      {"state.safetensors has ", [&] { damage(newest + "state.safetensors", [](std::string& b) { b.pop_back(); }); }},
      {"config.json is missing", [&] { fs::remove(path(newest + "config.json")); }},
      {"its manifest is damaged", [&] { damage(newest + "manifest", [](std::string& b) { b[3] ^= 4; }); }},
      {"it has no manifest", [&] { fs::remove(path(newest + "manifest")); }},
  };
  for (const auto& [words, way] : ways) {
    fs::remove_all(path("run"));
    fs::copy(path("whole"), path("run"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    rewind("run", 4);
    way();
    const Result tried = toy(train("run", options + " --resume --dry-run"));  // says so, too, and touches nothing
    EXPECT_EQ(tried.code, 0) << tried.err;
    EXPECT_NE(tried.err.find("step_000004 is damaged: " + words), std::string::npos) << tried.err;
    const Result r = toy(train("run", options + " --resume"));
    ASSERT_EQ(r.code, 0) << words << r.err;
    EXPECT_NE(r.err.find(path("run/checkpoints/step_000004") + " is damaged: " + words), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("resuming from " + path("run/checkpoints/step_000003")), std::string::npos) << r.err;
    EXPECT_EQ(r.out.rfind("step 4:", 0), 0u) << words;
    fs::remove_all(path("run/checkpoints/damaged_step_000004"));
    expect_same_files("run", files("whole"), words);
  }
  for (const int step : {2, 3, 4}) fs::remove(path("run/checkpoints/step_00000" + std::to_string(step) + "/manifest"));
  for (const char* more : {" --resume", " --resume --dry-run"})
    refuses(train("run", options + more),
            {path("run/checkpoints"), "damaged", "it has no manifest", "remove the folder"});
}

TEST_F(Checkpoints, WarmStartAndTokenizersThatWereTrained) {
  ASSERT_EQ(toy(train("first", "--tokenizer spm:300")).code, 0);
  const auto warm = [&](const std::string& out) {
    return "train warm-start --corpus " + corpus_ + " --init " + path("first/model.gguf") +
           " --batch 2 --tokens 8 --steps 4 --checkpoint-every 2 --keep 9 --accumulate 2 --out " + path(out);
  };
  for (const std::string recipe : {"scratch", "warm"}) {
    const auto command = [&](const std::string& out) {
      return recipe == "warm" ? warm(out) : train(out, "--tokenizer spm:300 --checkpoint-every 2 --keep 9");
    };
    const Result whole = toy(command("whole_" + recipe));
    ASSERT_EQ(whole.code, 0) << whole.err;
    fs::copy(path("whole_" + recipe), path("run_" + recipe),
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    rewind("run_" + recipe, 2);
    const Result r = toy(command("run_" + recipe) + " --resume");
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, renamed(behind(whole.out, 2), "whole_", "run_"));
    expect_same_files("run_" + recipe, files("whole_" + recipe), recipe);
  }
}

}  // namespace

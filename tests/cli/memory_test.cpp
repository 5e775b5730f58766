// --memory and --dry-run: what a run is told to need, what it then needs, and that it is the same run.
#include <fcntl.h>

#include <chrono>
#include <thread>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliMemory : public Cli {
 protected:
  std::string train(const std::string& more, const std::string& out = "run") const {
    return "train from-scratch --corpus " + tiny_corpus() +
           " --tokenizer bytes --lr 1e-3 --threads 2 --overwrite --out " + path(out) + " " + more;
  }
  json json_of(const std::string& arguments) const {
    const Result r = toy(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.err;
    return json::parse(r.out);
  }
  // The largest anonymous memory that a run has at any time, in bytes: what is resident and no page of a file.
  size_t peak_of(const std::string& arguments) const {
    const std::string line = "exec " + std::string(TOY_BINARY) + " " + arguments + " >/dev/null 2>" + path("peak.err");
    const pid_t child = fork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    size_t peak = 0;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      std::ifstream f("/proc/" + std::to_string(child) + "/status");
      for (std::string row; std::getline(f, row);)
        if (row.rfind("RssAnon:", 0) == 0) peak = std::max(peak, size_t(std::stoull(row.substr(8))) << 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(status, 0) << slurp(path("peak.err"));
    return peak;
  }
};

const char* const kFew = "--size tiny --batch 16 --tokens 128 --steps 3";

TEST_F(CliMemory, BadSizesAreRefused) {
  for (const char* size : {"4X", "abc", "-1G", "1e3G", "4 G", "1.2.3G", "G", "4iB", "4GiBs"})
    refuses(train(std::string(kFew) + " --memory='" + size + "'"), {"memory: ", "no size", "4G"});
  refuses(train(std::string(kFew) + " --memory 0"), {"memory: '0' is 0 B", "at least 1.0 MiB"});
  refuses(train(std::string(kFew) + " --memory 4"), {"memory: '4' is 4 B", "4G"});
  refuses(train(std::string(kFew) + " --memory 99999999999T"), {"more than any machine has"});
  refuses("bench train --shape tiny --memory 4X", {"memory: '4X'"});
}

TEST_F(CliMemory, TooLittleSaysTheLeastAndWhatToDo) {
  const Result r = toy(train(std::string(kFew) + " --memory 5M"));
  EXPECT_EQ(r.code, 2);
  for (const char* words : {"memory: 5.0 MiB is not enough", "needs", "weights", "moments", "--memory", "--batch",
                            "--tokens", "--update streaming", "--optimizer"})
    EXPECT_NE(r.err.find(words), std::string::npos) << words << "\n" << r.err;
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
  // What it says is enough.
  const size_t at = r.err.find("--memory ") + 9;
  const std::string least = r.err.substr(at, r.err.find(',', at) - at);
  EXPECT_EQ(toy(train(std::string(kFew) + " --memory " + least)).code, 0) << least;
}

// What comes before the trainer, too: reading, training a tokenizer, tokenizing. What the refusal names is enough.
TEST_F(CliMemory, TextsAndTokenizersKeepTheLimit) {
  const std::string text = path("stories.txt");
  ASSERT_EQ(toy("corpus stories --bytes 12000000 --out " + text).code, 0);
  const auto run = [&](const std::string& more) {
    return "train from-scratch --corpus " + text + " --size tiny --batch 1 --tokens 16 --steps 1 --threads 2 --val " +
           tiny_corpus() + " --overwrite --out " + path("run") + " " + more;
  };
  const auto named = [&](const Result& r, const std::string& option) {
    EXPECT_EQ(r.code, 2) << r.err;
    const size_t at = r.err.find(option + " ");
    EXPECT_NE(at, std::string::npos) << r.err;
    return at == std::string::npos ? "" : r.err.substr(at, r.err.find_first_of(" ,\n", at + option.size() + 1) - at);
  };
  constexpr size_t kMiB = size_t(1) << 20;
  EXPECT_NE(named(toy(run("--tokenizer bytes --data-cache none --memory 30M")), "--memory"), "");
  EXPECT_NE(slurp(path("stderr")).find("--data-cache DIR"), std::string::npos);
  EXPECT_LE(peak_of(run("--tokenizer bytes --memory 30M --data-cache " + path("cache"))), 30 * kMiB);
  const Result piped = toy(run("--tokenizer bytes --memory 12M --corpus -"), text);
  EXPECT_NE(named(piped, "--memory"), "");
  EXPECT_NE(piped.err.find("reading standard input"), std::string::npos) << piped.err;
  const std::string words = "--tokenizer unigram:300 --data-cache none --memory 60M";
  const std::string smaller = named(toy(run(words)), "--tokenizer-bytes");
  EXPECT_LE(peak_of(run(words + " " + smaller)), 60 * kMiB) << smaller;
}

// The index of documents is kept next to their ids.
TEST_F(CliMemory, ManyDocumentsKeepTheLimit) {
  std::string text;
  for (int i = 0; i < 2'000'000; ++i) text += "a\n\n";
  const std::string run = "train from-scratch --corpus " + write("short.txt", text) +
                          " --documents blank-lines --data-cache none --size tiny --eval-tokens 1000 --tokens 32 "
                          "--batch 2 --steps 1 --threads 1 --overwrite --out " +
                          path("run") + " --memory ";
  const Result r = toy(run + "40M");
  EXPECT_EQ(r.code, 2) << r.err;
  const size_t at = r.err.find("--memory ") + 9;
  const std::string enough = r.err.substr(at, r.err.find(',', at) - at);
  EXPECT_LE(peak_of(run + enough), size_t(std::stoull(enough)) << 20) << enough;
  EXPECT_LE(std::stoull(enough), 100u);
}

TEST_F(CliMemory, TheLeastCountsWhatIsLookedAt) {
  for (const char* look : {"--tap '*'", "--grads '*'", "--drift '*'"}) {
    const std::string line = train(std::string(kFew) + " " + look + " --memory ");
    const Result r = toy(line + "5M");
    EXPECT_EQ(r.code, 2) << r.err;
    const size_t at = r.err.find("--memory ") + 9;
    EXPECT_EQ(toy(line + r.err.substr(at, r.err.find(',', at) - at)).code, 0) << look << r.err;
  }
}

// A GPU's memory is not the machine's: what does not fit there is refused before it is uploaded, with what would fit.
TEST_F(CliMemory, OfAGpu) {
  const std::string emulated = " --device emulated";
  ASSERT_EQ(toy(train("--size small --batch 1 --tokens 16 --steps 1 --eval-tokens 32", "made")).code, 0);
  const std::string made = " " + path("made/model.gguf");
  const auto fails = [&](const char* memory, const std::string& arguments, const std::vector<std::string>& words) {
    ::setenv("TOY_EMULATED_MEMORY", memory, 1);
    refuses(arguments + emulated, words);
    ::unsetenv("TOY_EMULATED_MEMORY");
  };
  fails("1M", "infer" + made + " --prompt Once --n 4",
        {"memory: the weights of", "on device 'emulated'", "they would take"});
  fails("4M", "infer" + made + " --prompt Once --n 500", {"positions would fit", "on device 'emulated'"});
  fails("4M", train("--size tiny --batch 64 --tokens 64 --steps 1"), {"memory: training", "on device 'emulated'"});
  fails("64M", "serve" + made + " --port 0 --cache 100M", {"cache: '100M'", "on device 'emulated'", "--cache "});
  // --memory is the device's, too.
  refuses(train("--size tiny --batch 8 --tokens 64 --steps 1 --memory 4M") + emulated,
          {"memory: 4.0 MiB is not enough", "weights", "moments", "--memory "});
}

// Before weights are made, which takes longer than planning.
TEST_F(CliMemory, WhatNoMachineHoldsIsRefusedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  refuses(train("--size smollm2-135m --batch 100000 --tokens 1024"), {"memory: ", "are free"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(CliMemory, ALimitIsKeptAndChangesNoByte) {
  const Result free = toy(train(kFew, "free"));
  ASSERT_EQ(free.code, 0) << free.err;
  EXPECT_EQ(free.err.find("recomputing"), std::string::npos);
  const json plan = json_of(train(std::string(kFew) + " --dry-run --json"));
  const auto needed = plan.at("memory").at("peak_bytes").get<size_t>(),
             kept = plan.at("memory").at("activations_bytes").get<size_t>();
  const size_t limit = needed - kept / 3;
  const std::string with_limit = train(std::string(kFew) + " --memory " + std::to_string(limit));
  const Result r = toy(with_limit);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("recomputing "), std::string::npos) << r.err;
  EXPECT_EQ(r.out.substr(0, r.out.rfind("step ")), free.out.substr(0, free.out.rfind("step ")));
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("free/model.gguf")));
  EXPECT_LE(peak_of(with_limit), limit);
}

TEST_F(CliMemory, ADryRunPlansAndWritesNothing) {
  const std::string options = std::string(kFew) + " --eval-every 2 --sample 4 --ema 0.9 --dry-run";
  const json j = json_of(train(options + " --json"));
  EXPECT_EQ(j.at("steps"), 3);
  EXPECT_EQ(j.at("measured_steps"), 3);
  EXPECT_GT(j.at("step_seconds"), 0);
  EXPECT_GT(j.at("validation_seconds"), 0);
  EXPECT_GE(j.at("seconds").get<double>(), 3 * j.at("step_seconds").get<double>());
  size_t sum = 0;
  for (const auto& [name, bytes] : j.at("memory").items())
    if (name != "peak_bytes") sum += bytes.get<size_t>();
  EXPECT_EQ(j.at("memory").at("peak_bytes"), sum);
  EXPECT_EQ(j.at("memory").at("weights_bytes"), j.at("parameters").get<size_t>() * 4);
  EXPECT_EQ(j.at("memory").at("moments_bytes"), j.at("parameters").get<size_t>() * 12);  // two of AdamW, an average
  const Result text = toy(train(options));
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* words : {"memory  ", "weights", "activations", "step  ", "run  ", "3 steps"})
    EXPECT_NE(text.out.find(words), std::string::npos) << text.out;
  EXPECT_FALSE(fs::exists(path("run")));
}

TEST_F(CliMemory, ADryRunOfARunThatGoesOnLeavesItAsItIs) {
  const std::string options = "--size tiny --batch 2 --tokens 16 --checkpoint-every 2";
  ASSERT_EQ(toy(train(options + " --steps 4")).code, 0);
  const auto seen = [&] {
    std::string all;
    for (const auto& e : fs::recursive_directory_iterator(path("run"))) {
      all += fs::relative(e.path(), path()).string() + " ";
      if (e.is_regular_file())
        all += std::to_string(e.last_write_time().time_since_epoch().count()) + " " + std::to_string(e.file_size());
      all += "\n";
    }
    return all;
  };
  const std::string before = seen();
  refuses(train(options + " --steps 4 --dry-run"), {"has checkpoints of an earlier run", "--resume"});
  refuses(train(options + " --steps 3 --dry-run --resume"), {"resume"});
  const json j = json_of(train(options + " --steps 4 --dry-run --resume --json"));
  EXPECT_EQ(j.at("steps"), 0);
  EXPECT_EQ(j.at("measured_steps"), 0);
  EXPECT_EQ(seen(), before);
}

TEST_F(CliMemory, BenchKeepsALimit) {
  const std::string bench = "bench train --shape tiny --batch 16 --tokens 128 --steps 1 --warmup 1 --threads 1 --json";
  const json free = json_of(bench);
  EXPECT_EQ(free.at("recomputed_blocks"), 0);
  EXPECT_EQ(free.at("lightly_recomputed_blocks"), 0);
  const auto limit = free.at("planned_mib").get<int64_t>() - 4;
  const json less = json_of(bench + " --memory " + std::to_string(limit) + "M");
  EXPECT_GT(less.at("recomputed_blocks").get<int>() + less.at("lightly_recomputed_blocks").get<int>(), 0);
  EXPECT_LE(less.at("planned_mib"), limit);
  EXPECT_EQ(less.at("loss"), free.at("loss"));
}

TEST_F(CliMemory, DescribeShowsTheEffect) {
  const std::string line = "describe tiny --memory train --batch 16 --tokens 64";
  const json free = json_of(line + " --json"), less = json_of(line + " --limit 12M --json");
  EXPECT_LT(less.at("arena_bytes"), free.at("arena_bytes"));
  const Result text = toy(line + " --limit 12M");
  EXPECT_NE(text.out.find("recomputing "), std::string::npos) << text.out;
  EXPECT_NE(toy("describe tiny --batch 16 --tokens 64 --limit 12M").out.find("recomputing "), std::string::npos);
  refuses(line + " --limit 4M", {"limit: 4.0 MiB is not enough", "needs"});
  refuses(line + " --limit 4X", {"limit: '4X'"});
  refuses("describe tiny --memory decode --limit 12M", {"--limit", "decode"});
}

// Above 500 MB a plan is within 5% of what the run then has, whatever the memory is spent on.
TEST_F(CliMemory, SlowPlansAreWithinFivePercent) {
  const std::string weights =
      write("weights.json", R"({"d_model": 512, "n_layers": 4, "n_heads": 8, "n_kv": 8, "d_head": 64, "d_ff": 8704})");
  const std::string rows =
      write("rows.json", R"({"d_model": 256, "n_layers": 10, "n_heads": 4, "n_kv": 2, "d_head": 64, "d_ff": 704})");
  for (const std::string& run :
       {"--steps 2 --val-fraction 0.01 --batch 1 --tokens 64 --size " + weights,
        "--steps 2 --val-fraction 0.01 --batch 1 --tokens 64 --optimizer lion --update streaming --clip 0 --size " +
            weights,
        "--steps 2 --val-fraction 0.01 --batch 1 --tokens 64 --accumulate 2 --ema 0.9 --checkpoint-every 1 --size " +
            weights,
        "--steps 2 --batch 16 --tokens 256 --eval-every 1 --size " + rows,
        "--steps 2 --batch 16 --tokens 256 --memory 550M --size " + rows}) {
    fs::remove_all(path("run"));
    const auto planned = json_of(train(run + " --dry-run --json")).at("memory").at("peak_bytes").get<double>();
    const auto peak = double(peak_of(train(run)));
    EXPECT_GT(peak, 500e6) << run;
    EXPECT_NEAR(planned / peak, 1, 0.05) << run << "\nplanned " << planned << ", had " << peak;
    const bool limited = run.find("--memory 550M") != std::string::npos;
    EXPECT_TRUE(!limited || peak <= 550.0 * 1024 * 1024) << peak;
  }
}

// Where a step takes seconds, fewer tokens are measured: what that says of the step is about what it then takes.
// Machines are shared: of three pairs the middle one counts.
TEST_F(CliMemory, SlowStepsAreExtrapolated) {
  const std::string wide =
      write("wide.json", R"({"d_model": 512, "n_layers": 6, "n_heads": 8, "n_kv": 8, "d_head": 64, "d_ff": 2048})");
  const std::string run = "--size " + wide + " --batch 8 --tokens 512 --steps 2 --eval-tokens 512 --val-fraction 0.2";
  std::vector<double> ratios;
  for (int i = 0; i < 3; ++i) {
    const json told = json_of(train(run + " --dry-run --json"));
    const bool all = told.at("measured_tokens") == 8 * 512;
    EXPECT_EQ(told.at("measured_tokens"), all ? 8 * 512 : 1024);
    if (!all) {
      EXPECT_GT(told.at("step_seconds"), 2);
    }
    fs::remove_all(path("run"));
    const Result r = toy(train(run + " --json"));
    ASSERT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    double seconds = 0;
    for (std::string line; std::getline(lines, line);)
      if (const json e = json::parse(line); e.at("kind") == "step") seconds = 1e-6 * e.at("wall_us").get<double>();
    ratios.push_back(told.at("step_seconds").get<double>() / seconds);
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_NEAR(ratios[1], 1, 0.5) << ratios[0] << " " << ratios[2];
}

// Machines are shared: of three pairs the middle one counts.
TEST_F(CliMemory, SlowTimesAreWithinThirtyPercent) {
  const std::string run = "--size small --batch 4 --tokens 128 --steps 60 --eval-every 20 --eval-tokens 2000";
  std::vector<double> ratios;
  for (int i = 0; i < 3; ++i) {
    const auto told = json_of(train(run + " --dry-run --json")).at("seconds").get<double>();
    fs::remove_all(path("run"));
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(toy(train(run)).code, 0);
    ratios.push_back(told / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(ratios.begin(), ratios.end());
  EXPECT_NEAR(ratios[1], 1, 0.3) << ratios[0] << " " << ratios[2];
}

}  // namespace

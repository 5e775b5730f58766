// Runs in their folders: summaries, order, comparison, names.
#include "toy/runs/run.h"
#include "toy/runs/report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <tuple>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::runs::run_test {
namespace {

using namespace testing;

Log log_of(const std::string& id, std::vector<double> losses, std::optional<int> exit_code = 0) {
  RunStart start;
  start.run_id = id;
  start.steps = int64_t(losses.size());
  start.time = "2026-01-31T12:30:00Z";
  Log log;
  log.events.push_back({0, {}, "prepare", start});
  double t = 0;
  int64_t step = 0;
  for (const double loss : losses) {
    Step s;
    s.loss = loss;
    s.tokens = 10;
    s.tokens_per_second = 1000 * double(++step);
    log.events.push_back({t += 0.5, step, "train", s});
  }
  log.events.push_back({t, step, "eval", Eval{2, 1, true}});
  if (exit_code) {
    RunEnd end;
    end.reason = *exit_code == 0 ? "done" : "error";
    end.exit_code = *exit_code;
    log.events.push_back({t, step, "end", end});
  }
  return log;
}

TEST(Summary, SumsUp) {
  const Summary s = summarize(log_of("a", {5, 3, NAN, 4}), "runs/a", false);
  EXPECT_EQ(s.id, "a");
  EXPECT_EQ(s.status, "done");
  EXPECT_EQ(s.step, 4);
  EXPECT_EQ(s.tokens, 40);
  EXPECT_EQ(s.loss, 4);
  EXPECT_EQ(s.best_loss, 3);
  EXPECT_EQ(s.validation_loss, 2);
  EXPECT_EQ(s.seconds, 2);
  EXPECT_EQ(to_text(column("started"), s), "2026-01-31 12:30");
  EXPECT_EQ(to_text(column("loss"), s), "4.0000");
  EXPECT_EQ(to_text(column("lr"), s), "-");
  EXPECT_EQ(to_json(s).size(), columns().size());
}

// Streamed, and from the log as a whole: resumed, stopped twice, with steps and validations that are there twice.
TEST(Summary, OfAFileIsThatOfItsLog) {
  const Folder folder;
  const auto lines = [](const std::vector<Event>& events) {
    std::string s;
    for (const Event& e : events) s += to_json_line(e) + "\n";
    return s;
  };
  const std::string run = lines(log_of("a", {5, 3, 6, 4}).events);
  const std::string resumed = run + lines({{9, 2, "prepare", Resume{"", "c"}}});
  const Event late = log_of("a", {5, 3, 2.5}).events[3], again = log_of("a", {4.5}).events[1];
  const Event eval{9, 2, "eval", Eval{7, 1, true}};
  const std::string logs[] = {run,
                              resumed,
                              resumed + lines({late, eval}),
                              resumed + lines({late, eval, eval, {9, 1, "prepare", Resume{"", "c"}}}),
                              resumed + lines({late, again, eval, eval}),
                              run + run,
                              run + "torn"};
  for (const std::string& text : logs) {
    const std::string path = folder.write("events.jsonl", text);
    EXPECT_EQ(json_text(to_json(summarize_file(path, "r/a", false))),
              json_text(to_json(summarize(read_events(path), "r/a", false))));
  }
  const Summary s = summarize_file(folder.write("events.jsonl", logs[2]), "r/a", true);
  EXPECT_EQ(s.step, 3);
  EXPECT_EQ(s.tokens, 30);
  EXPECT_EQ(s.best_loss, 2.5);
  EXPECT_EQ(s.status, "running");
}

TEST(Summary, StatusIsWhatHappened) {
  EXPECT_EQ(summarize(log_of("a", {5}, 1), "a", false).status, "failed");
  EXPECT_EQ(summarize(log_of("a", {5}, std::nullopt), "a", false).status, "stopped");
  EXPECT_EQ(summarize(log_of("a", {5}, std::nullopt), "a", true).status, "running");
  EXPECT_EQ(summarize(Log{}, "/x/y/", false).id, "y");
}

TEST(Summary, AFailureHasItsReasonUntilTheRunIsResumed) {
  Log log = log_of("a", {5}, std::nullopt);
  RunEnd end;
  end.reason = "error";
  end.exit_code = 2;
  end.error = "disk full";
  log.events.push_back({9, 1, "end", end});
  const Summary failed = summarize(log, "a", false);
  EXPECT_EQ(failed.status, "failed");
  EXPECT_EQ(failed.error, "disk full");
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_EQ(to_text(column("exit_code"), failed), "2");
  log.events.push_back({10, 1, "prepare", Resume{"", "checkpoint"}});
  const Summary resumed = summarize(log, "a", true);
  EXPECT_EQ(resumed.error, "");
  EXPECT_EQ(to_text(column("exit_code"), resumed), "-");
}

TEST(Summary, OptionsThatDiffer) {
  Summary a, b;
  a.config = {R"({"lr":0.001,"steps":10,"out":"a","size":"tiny","tap":["x"]})"};
  b.config = {R"({"lr":1e-05,"steps":10,"out":"b","size":"tiny","tap":null,"new":true})"};
  const Summary runs[] = {a, b};
  std::string text;
  for (const OptionDifference& d : option_differences(runs))
    text += d.name + " " + d.values[0] + " " + d.values[1] + "\n";
  EXPECT_EQ(text, "lr 0.001 1e-05\ntap [\"x\"] not given\nnew not given true\n");
  EXPECT_TRUE(option_differences(std::span(runs, 1)).empty());
}

TEST(Summary, SortsWithWhatIsMissingLast) {
  std::vector<Summary> runs;
  for (const auto& [id, loss] : {std::pair("a", 2.0), std::pair("b", double(NAN)), std::pair("c", 1.0)})
    runs.push_back(summarize(log_of(id, {loss}), id, false));
  const auto ids = [&] { return runs[0].id + runs[1].id + runs[2].id; };
  sort_by(runs, column("loss"), false);
  EXPECT_EQ(ids(), "cab");
  sort_by(runs, column("loss"), true);
  EXPECT_EQ(ids(), "acb");
  sort_by(runs, column("id"), true);
  EXPECT_EQ(ids(), "cba");
  EXPECT_NE(error_of([] { column("speed"); }).find("'speed' is not one of id, status"), std::string::npos);
}

TEST(Summary, CompareFindsTheBest) {
  const Summary runs[] = {summarize(log_of("a", {5, 2}), "a", false), summarize(log_of("b", {4, 3, 3}), "b", false)};
  for (const Compare& c : compare(runs)) {
    EXPECT_EQ(c.runs, (std::vector<std::string>{"a", "b"}));
    if (c.metric == "loss") {
      EXPECT_EQ(c.values, (std::vector<double>{2, 3}));
      EXPECT_EQ(c.best, "a");
    }
    if (c.metric == "tokens_per_second") {
      EXPECT_EQ(c.best, "b");  // more is better
    }
  }
}

// Losses per token compare where the tokens are the same; nats per byte everywhere.
TEST(Summary, NoStarAcrossTokenizers) {
  const auto run = [](const char* id, const char* tokenizer, double loss, double nats_per_byte) {
    Log log;
    RunStart start;
    start.run_id = id;
    start.model = {R"({"name":"toy","vocab":)" + std::string(tokenizer == std::string("bytes") ? "259" : "512") + "}"};
    start.config = {R"({"size":"sizes/tiny.json","tokenizer":")" + std::string(tokenizer) + R"("})"};
    log.events.push_back({0, {}, "prepare", start});
    log.events.push_back({1, 1, "train", Step{.loss = loss}});
    log.events.push_back({2, 1, "eval", Eval{loss, nats_per_byte, true}});
    return summarize(log, id, false);
  };
  const auto best = [](std::span<const Summary> runs, const std::string& metric) {
    for (const Compare& c : compare(runs))
      if (c.metric == metric) return c.best.value_or("none");
    return std::string("absent");
  };
  const Summary bytes = run("a", "bytes", 2.99, 2.99), pieces = run("b", "spm:512", 4.96, 2.2),
                other = run("c", "spm:512", 4.8, 2.2 * 4.8 / 4.96), longer = run("d", "spm:512", 4.7, 2);
  EXPECT_EQ(pieces.model, "tiny, spm:512");
  const Summary mixed[] = {bytes, pieces}, alike[] = {pieces, other}, texts[] = {pieces, longer};
  EXPECT_FALSE(have_same_tokens(mixed));
  EXPECT_TRUE(have_same_tokens(alike));
  EXPECT_FALSE(have_same_tokens(texts));  // a token has other bytes: another vocabulary of the same size
  for (const char* metric : {"loss", "validation_loss", "best_loss", "best_validation_loss"}) {
    EXPECT_EQ(best(mixed, metric), "none") << metric;
    EXPECT_EQ(best(alike, metric), "c") << metric;
  }
  EXPECT_EQ(best(mixed, "nats_per_byte"), "b");
  // What rewards minimize is no loss of text.
  std::vector<Summary> rewarded(std::begin(alike), std::end(alike));
  rewarded[0].recipe = "grpo", rewarded[0].loss = -1;
  EXPECT_EQ(best(rewarded, "loss"), "none");
  // In one page: both charts, the results, and the note.
  const Log logs[2] = {};
  const std::string page = html_report(logs, mixed);
  EXPECT_NE(page.find("losses per token do not compare"), std::string::npos);
  EXPECT_NE(page.find("<td>tokenizer</td><td class=\"l\">bytes</td><td class=\"l\">spm:512</td>"), std::string::npos);
}

// Two runs of reinforcement learning: their rewards next to each other. One run: an answer with its reward.
TEST(Summary, PagesShowRewards) {
  Log log;
  RunStart start;
  start.recipe = "grpo";
  log.events.push_back({0, {}, "prepare", start});
  for (int i = 1; i <= 3; ++i) {
    Step step{.loss = 1, .tokens = 10};
    step.policy.reward = 0.25 * i, step.policy.entropy = 2.0 - 0.5 * i, step.policy.length = 7;
    log.events.push_back({0.5 * i, i, "train", step});
  }
  log.events.push_back({2, 3, "train", Sample{"four", "2 + 2?", "4", 0.5}});
  const Log logs[2] = {log, log};
  const Summary runs[2] = {summarize(log, "a", false), summarize(log, "b", false)};
  const std::string both = html_report(logs, runs), one = html_report(log, runs[0]);
  for (const char* title : {"Reward", "Entropy", "Length"}) {
    EXPECT_NE(both.find(std::string(">") + title), std::string::npos) << title;
    EXPECT_NE(one.find(std::string(">") + title), std::string::npos) << title;
  }
  EXPECT_NE(one.find("<summary>step 3, reward 0.5</summary>"), std::string::npos);
}

TEST(Summary, ShortNamesAreWhatTellsApart) {
  std::vector<Summary> runs(2);
  runs[0].id = "llama-20260101-001", runs[1].id = "llama-20260101-002";
  EXPECT_EQ(short_names(runs), (std::vector<std::string>{"001", "002"}));
  runs[1].id = runs[0].id, runs[0].folder = "x/a", runs[1].folder = "y/a";
  name_apart(runs);
  EXPECT_EQ(runs[1].id, "y/a");
}

// By steps, by the tokens of all steps so far, and by the clock.
TEST(CompareChart, GoesAlongStepsTokensAndTime) {
  Log log;
  for (int i = 1; i <= 3; ++i) {
    log.events.push_back({0.5 * i, i, "train", Step{.loss = 5.0 - i, .tokens = 100 * i}});
    if (i == 2) log.events.push_back({1.2, i, "eval", Eval{3, 1, true}});
  }
  const Log logs[] = {log};
  const std::string names[] = {"a"};
  const auto x = [&](const char* metric, Along along) { return compare_chart(metric, logs, names, along).series[0].x; };
  EXPECT_EQ(x("loss", Along::step), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(x("loss", Along::tokens), (std::vector<double>{100, 300, 600}));
  EXPECT_EQ(x("loss", Along::time), (std::vector<double>{0.5, 1, 1.5}));
  EXPECT_EQ(x("validation_loss", Along::tokens), (std::vector<double>{300}));
  EXPECT_EQ(x("validation_loss", Along::time), (std::vector<double>{1.2}));
  EXPECT_EQ(compare_chart("loss", logs, names, Along::tokens).x_label, "tokens");
}

class Folders : public ::testing::Test, protected Folder {};

TEST_F(Folders, FindsRuns) {
  for (const char* name : {"b/events.jsonl", "a/deep/er/events.jsonl", "a/so/too/deep/for/events.jsonl",
                           ".hidden/events.jsonl", "c/other.txt"})
    write(name, "x");
  fs::create_directory_symlink(path(), path("loop"));
  EXPECT_EQ(find_runs(path()), (std::vector<std::string>{path("a/deep/er"), path("b")}));
  EXPECT_EQ(find_runs(path("b")), (std::vector<std::string>{path("b")}));
  EXPECT_NE(error_of([&] { find_runs(path("none")); }).find("no such folder"), std::string::npos);
  EXPECT_NE(error_of([&] { find_runs(path("c/other.txt")); }).find("is not a folder"), std::string::npos);
}

TEST_F(Folders, FindsALog) {
  for (const char* name : {"llama-1", "llama-2", "gpt"}) write(std::string(name) + "/events.jsonl", "x");
  const std::vector<std::string> roots{path(), path("absent")};
  const std::string gpt = path("gpt/events.jsonl");
  for (const std::string& what : {gpt, path("gpt"), std::string("gpt"), std::string("g")})
    EXPECT_EQ(find_log(what, roots), gpt);
  EXPECT_EQ(find_log("llama-1", roots), path("llama-1/events.jsonl"));
  EXPECT_NE(error_of([&] { find_log("llama", roots); }).find("may be"), std::string::npos);
  EXPECT_NE(error_of([&] { find_run("llama", roots); }).find("may be"), std::string::npos);
  EXPECT_EQ(find_run("g", roots), path("gpt"));
  EXPECT_EQ(find_run("bert", roots), std::nullopt);
  EXPECT_NE(error_of([&] { find_log("bert", roots); }).find("gpt, llama-1, llama-2"), std::string::npos);
  fs::create_directories(path("empty"));
  EXPECT_NE(error_of([&] { find_log(path("empty"), roots); }).find("has no events.jsonl"), std::string::npos);
}

// What a program takes as the model or the adapter of a run that has not ended, or goes on after its end.
TEST_F(Folders, FindsTheNewestThatARunMade) {
  const auto now = fs::file_time_type::clock::now();
  const auto write_at = [&](const std::string& name, int minutes) {
    fs::last_write_time(write(name, "x"), now + std::chrono::minutes(minutes));
  };
  const std::string run = path("run");
  EXPECT_EQ(newest_model(run).file, "");
  EXPECT_EQ(newest_adapter(run).file, "");
  for (const auto& [made, in_checkpoint, newest] :
       {std::tuple{"model.gguf", "weights.gguf", &newest_model}, {"adapter.gguf", "adapter.gguf", &newest_adapter}}) {
    const std::string first = std::string("run/checkpoints/step_000002/") + in_checkpoint,
                      second = std::string("run/checkpoints/step_000010/") + in_checkpoint;
    write_at(first, 2), write_at(second, 3);
    EXPECT_EQ(newest(run).file, path(second));
    EXPECT_EQ(newest(run).note, "the run has not finished");
    EXPECT_EQ(newest(path("run/checkpoints/step_000002")).file, path(first));
    EXPECT_EQ(newest(path("run/checkpoints/step_000002")).note, "");
    write_at(std::string("run/") + made, 3);
    EXPECT_EQ(newest(run).file, path(std::string("run/") + made));
    EXPECT_EQ(newest(run).note, "");
    write_at(second, 4);  // the next run in the folder
    EXPECT_EQ(newest(run).file, path(second));
    EXPECT_EQ(newest(run).note, std::string(made) + " is older than the newest checkpoint");
  }
}

TEST_F(Folders, NamesByTemplate) {
  const std::map<std::string, std::string> fields{{"arch", "llama"}};
  EXPECT_EQ(make_folder("plain/out", fields), "plain/out");
  EXPECT_FALSE(fs::exists("plain"));
  EXPECT_EQ(make_folder(path("runs/{arch}-{seq}"), fields), path("runs/llama-001"));
  EXPECT_EQ(make_folder(path("runs/{arch}-{seq}"), fields), path("runs/llama-002"));
  EXPECT_TRUE(fs::is_directory(path("runs/llama-002")));
  const std::string dated = make_folder(path("{date}"), fields);
  EXPECT_EQ(dated.size(), path("20260131").size());
  EXPECT_NE(error_of([&] { make_folder(dated.substr(0, dated.size() - 8) + "{date}", fields); }).find("{seq}"),
            std::string::npos);
  EXPECT_NE(error_of([&] { make_folder("{speed}", fields); }).find("'speed' is not a placeholder"), std::string::npos);
  for (const char* bad : {"{arch", "arch}", "a{b"})
    EXPECT_NE(error_of([&] { make_folder(bad, fields); }).find("brace"), std::string::npos) << bad;
}

TEST_F(Folders, FindsTheCommit) {
  const std::string hash(40, 'a'), other(40, 'b');
  EXPECT_EQ(git_commit(path()).value_or("none").size() == 40, fs::exists("/tmp/.git"));
  write(".git/HEAD", "ref: refs/heads/main\n");
  write(".git/packed-refs", "# pack-refs\n" + other + " refs/heads/main\n");
  fs::create_directories(path("src/deep"));
  EXPECT_EQ(git_commit(path("src/deep")), other);
  write(".git/refs/heads/main", hash + "\n");
  EXPECT_EQ(git_commit(path("src/deep")), hash);
  write("tree/.git", "gitdir: ../.git/worktrees/t\n");
  write(".git/worktrees/t/HEAD", "ref: refs/heads/main\n");
  write(".git/worktrees/t/commondir", "../..\n");
  EXPECT_EQ(git_commit(path("tree")), hash);
  write(".git/HEAD", other + "\n");
  EXPECT_EQ(git_commit(path()), other);
}

}  // namespace
}  // namespace toy::runs::run_test

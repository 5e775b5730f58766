// What a training leaves in its folder, and toy runs.
#include <set>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

// The part of JSON Schema that `toy runs schema` uses.
std::string fault(const json& schema, const json& v, const std::string& where) {
  if (schema.contains("const") && v != schema["const"]) return where + " is not " + schema["const"].dump();
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), v) == schema["enum"].end())
    return where + " is none of " + schema["enum"].dump();
  if (schema.contains("minimum") && v < schema["minimum"]) return where + " is too small";
  if (schema.contains("type")) {
    const json types = schema["type"].is_array() ? schema["type"] : json::array({schema["type"]});
    const std::string is = v.is_number_integer() ? "integer"
                           : v.is_number()       ? "number"
                           : v.is_string()       ? "string"
                           : v.is_boolean()      ? "boolean"
                           : v.is_array()        ? "array"
                           : v.is_object()       ? "object"
                                                 : "null";
    const bool fits = std::any_of(types.begin(), types.end(),
                                  [&](const json& t) { return t == is || (t == "number" && is == "integer"); });
    if (!fits) return where + " is " + is + ", not " + types.dump();
  }
  for (const auto& name : schema.value("required", json::array()))
    if (!v.contains(name)) return where + " has no " + name.dump();
  if (v.is_object() && schema.contains("properties"))
    for (const auto& [name, member] : v.items()) {
      if (!schema["properties"].contains(name)) {
        if (schema.value("additionalProperties", true)) continue;
        return where + " has an unknown " + name;
      }
      if (const std::string f = fault(schema["properties"][name], member, where + "." + name); !f.empty()) return f;
    }
  if (v.is_array() && schema.contains("items"))
    for (const json& e : v)
      if (const std::string f = fault(schema["items"], e, where + "[]"); !f.empty()) return f;
  return {};
}

// "" if exactly one kind of the schema takes the line.
std::string fault_of_line(const json& schema, const json& line) {
  std::string faults;
  int fits = 0;
  for (const json& kind : schema.at("oneOf")) {
    const std::string f = fault(kind, line, line.value("kind", "?"));
    if (f.empty()) ++fits;
    if (kind.at("properties").at("kind").at("const") == line.value("kind", "?")) faults += f;
  }
  return fits == 1 ? "" : "fits " + std::to_string(fits) + " kinds: " + faults;
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

class CliRuns : public Cli {
 protected:
  std::string train(const std::string& out, const std::string& more = "") const {
    return "train from-scratch --corpus " + tiny_corpus() + with(kSmall, more) + "--steps 6 --out '" + path(out) +
           "' " + more;
  }
  void trained(const std::string& out, const std::string& more = "") const {
    const Result r = toy(train(out, more));
    ASSERT_EQ(r.code, 0) << r.err;
  }
};

const char* const kLookAtAll = "--tap '*:3' --grads 'blk.0.*:2' --drift '*:5' --op-timing 4 --sample 4 --eval-every 3 ";

TEST_F(CliRuns, EveryLineFollowsTheSchema) {
  trained("run", kLookAtAll);
  const json schema = json::parse(toy("runs schema").out);
  std::set<std::string> kinds;
  double t = 0;
  const std::vector<json> lines = lines_of(slurp(path("run/events.jsonl")));
  for (const json& line : lines) {
    EXPECT_EQ(fault_of_line(schema, line), "") << line.dump();
    kinds.insert(line.at("kind"));
    EXPECT_GE(line.at("t"), t);
    t = line.at("t");
  }
  EXPECT_EQ(lines.front().at("kind"), "run_start");
  EXPECT_EQ(lines.front().at("run_id"), "run");
  EXPECT_EQ(lines.front().at("config").at("steps"), 6);
  EXPECT_EQ(lines.front().at("config").at("optimizer"), "adamw");
  EXPECT_EQ(lines.front().at("effective").at("optimizer"), "adamw(beta1=0.9, beta2=0.95, eps=1e-08)");
  EXPECT_EQ(lines.front().at("effective").at("schedule"), "cosine");
  EXPECT_EQ(lines.back().at("kind"), "run_end");
  for (const char* kind :
       {"step", "tap", "grad", "drift", "op_timing", "sample", "eval", "region_enter", "region_exit"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  // The checker itself finds faults.
  json bad = lines.back();
  bad["exit_code"] = "none";
  EXPECT_NE(fault_of_line(schema, bad), "");
  bad = lines.front();
  bad.erase("t");
  EXPECT_NE(fault_of_line(schema, bad), "");
}

TEST_F(CliRuns, FilesOfARun) {
  trained("run");
  for (const char* name : {"model.gguf", "events.jsonl", "config.json", "flow.json"})
    EXPECT_TRUE(fs::exists(path("run") + "/" + name)) << name;
  const json config = json::parse(slurp(path("run/config.json")));
  EXPECT_EQ(config.at("size"), "tiny");
  EXPECT_EQ(config.at("lr"), 1e-3);
  EXPECT_EQ(config.at("clip"), 1.0);  // not given
  const json flow = json::parse(slurp(path("run/flow.json")));
  const json described = json::parse(toy("describe " + path("run/model.gguf") +
                                         " --graph train --batch 2 --tokens 16 "
                                         "--json")
                                         .out);
  EXPECT_EQ(flow.at("nodes").size(), described.at("nodes").size());
}

TEST_F(CliRuns, LookingDoesNotChangeTheResult) {
  const Result plain = toy(train("a")), watched = toy(train("a", kLookAtAll + std::string("--overwrite "))),
               again = toy(train("a", "--overwrite "));
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(watched.out, plain.out);
  EXPECT_EQ(again.out, plain.out);
}

TEST_F(CliRuns, FoldersByTemplate) {
  for (int i = 0; i < 2; ++i) ASSERT_EQ(toy(train("runs/{arch}-{recipe}-{seq}")).code, 0);
  EXPECT_TRUE(fs::exists(path("runs/llama-from-scratch-001/model.gguf")));
  EXPECT_TRUE(fs::exists(path("runs/llama-from-scratch-002/events.jsonl")));
  refuses(train("runs/{speed}"), {"'speed' is not a placeholder", "arch"});
  refuses(train("runs/{arch"), {"brace"});
  // A run that is refused leaves no folder.
  refuses("train from-scratch --corpus " + path("none.txt") + kSmall + "--out " + path("runs/x{seq}"), {"none.txt"});
  ASSERT_EQ(toy(train("p{seq}/../q")).code, 0);
  EXPECT_TRUE(fs::exists(path("q/model.gguf")));
  EXPECT_FALSE(fs::exists(path("p001")));
  EXPECT_FALSE(fs::exists(path("runs/x001")));
}

TEST_F(CliRuns, ListShowCompare) {
  trained("runs/a"), trained("runs/b", "--lr 5e-3 ");
  const Result list = toy("runs list " + path("runs") + " --sort loss");
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 3);
  EXPECT_NE(list.out.find("done"), std::string::npos);
  const auto summaries = lines_of(toy("runs list " + path("runs") + " --sort id --reverse --json").out);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].at("id"), "b");
  EXPECT_EQ(summaries[0].at("step"), 6);
  // The folder is the same wherever it is asked for.
  const auto listed_below = [&](const std::string& command) {
    EXPECT_EQ(std::system(("cd " + path() + " && " TOY_BINARY " runs " + command + " --json >o").c_str()), 0);
    return lines_of(slurp(path("o"))).back().at("folder");
  };
  EXPECT_EQ(listed_below("list runs --sort id"), fs::canonical(path("runs/b")).string());
  EXPECT_EQ(listed_below("show runs/b"), fs::canonical(path("runs/b")).string());
  const Result show = toy("runs show " + path("runs/a") + " --width 60");
  ASSERT_EQ(show.code, 0) << show.err;
  EXPECT_NE(show.out.find("Loss"), std::string::npos);
  EXPECT_EQ(json::parse(toy("runs show " + path("runs/a") + " --json").out).at("status"), "done");
  const Result compare = toy("runs compare " + path("runs/a") + " " + path("runs/b") + " --svg " + path("c.svg"));
  ASSERT_EQ(compare.code, 0) << compare.err;
  EXPECT_NE(slurp(path("c.svg")).find("<svg"), std::string::npos);
  for (const json& line : lines_of(toy("runs compare " + path("runs/a") + " " + path("runs/b") + " --json").out)) {
    EXPECT_EQ(line.at("kind"), "compare");
    EXPECT_EQ(line.at("values").size(), 2u);
  }
  const Result svg = toy("runs show " + path("runs/a") + " --svg " + path("plots"));
  ASSERT_EQ(svg.code, 0) << svg.err;
  EXPECT_TRUE(fs::exists(path("plots/loss.svg")));
  const Result report = toy("runs report " + path("runs/a") + " --out " + path("r.html"));
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_NE(slurp(path("r.html")).find("</html>"), std::string::npos);
  const Result both = toy("runs report " + path("runs/a") + " " + path("runs/b") + " --out " + path("both.html"));
  ASSERT_EQ(both.code, 0) << both.err;
  const std::string page = slurp(path("both.html"));
  for (const char* part :
       {"data-along=\"step\"", "data-along=\"tokens\"", "data-along=\"seconds\"", "Options that differ"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

// Stages in their order, each with its answers to the same questions.
TEST_F(CliRuns, ACardOfTwoStages) {
  trained("runs/a"), trained("runs/b", "--lr 5e-3 ");
  const std::string asked = write("asked.jsonl", R"({"prompt": "the", "answer": "x", "kind": "k"})"
                                                 "\n");
  for (const char* run : {"a", "b"}) {
    const Result r = toy("eval generate " + path("runs/") + run + " " + asked + " --n 3 --json --rows");
    ASSERT_EQ(r.code, 0) << r.err;
    const json row = json::parse(r.out).at("rows").at(0);
    EXPECT_EQ(row.at("kind"), "k");
    EXPECT_EQ(row.at("question"), "the");
    write(run + std::string(".json"), r.out);
  }
  const std::string stages = "runs card " + path("runs/a") + " " + path("runs/b");
  const std::string answers = " --answers " + path("a.json") + " --answers " + path("b.json");
  const Result card = toy(stages + answers + " --title Mine --out " + path("card.html"));
  ASSERT_EQ(card.code, 0) << card.err;
  for (const char* part : {"<title>Mine</title>", "<dt>b</dt>", "FLOP", "</html>"})
    EXPECT_NE(slurp(path("card.html")).find(part), std::string::npos) << part;
  const json numbers = json::parse(toy(stages + answers + " --json").out).at("stages");
  ASSERT_EQ(numbers.size(), 2u);
  EXPECT_EQ(numbers[1].at("stage"), "b");
  EXPECT_EQ(numbers[1].at("accuracy"), 0);
  const json graph = json::parse(slurp(path("runs/b/flow.json"))),
             config = json::parse(slurp(path("runs/b/config.json")));
  const double step = graph.at("cost").at("total").at("flops");
  EXPECT_EQ(numbers[1].at("tokens"), 6 * config.at("batch").get<int64_t>() * config.at("tokens").get<int64_t>());
  EXPECT_NEAR(numbers[1].at("flops").get<double>(), 6 * step, 1e-12 * step);
  refuses(stages + " --answers " + path("a.json"), {"--answers", "1 file for 2 stages"});
  refuses(stages + answers + " --json --title Mine", {"--json"});
  refuses(stages + " --answers " + asked + " --answers " + asked, {"asked.jsonl", "toy eval generate --json --rows"});
}

// What matters most stands first, so that a narrow terminal has it.
TEST_F(CliRuns, ANarrowListKeepsTheLosses) {
  trained("runs/llama-20260131-001");
  const auto titles = [&](const std::string& width) {
    const std::string out = toy("runs list " + path("runs") + width).out;
    return out.substr(0, out.find('\n'));
  };
  for (const char* title : {"run", "status", "step", "nats/byte", "loss"})
    EXPECT_NE(titles(" --width 60").find(title), std::string::npos) << titles(" --width 60");
  EXPECT_EQ(titles(" --width 60").find("parameters"), std::string::npos);
  EXPECT_NE(titles("").find("started"), std::string::npos);
}

TEST_F(CliRuns, CompareShowsTheOptionsThatDiffer) {
  trained("runs/a"), trained("runs/b", "--lr 5e-3 --clip 0 "), trained("runs/c");
  const std::string all = path("runs/a") + " " + path("runs/b") + " " + path("runs/c") + " ";
  const std::string out = toy("runs compare " + all + "--width 78").out;
  EXPECT_NE(out.find("0.001 (a, c); 0.005 (b)"), std::string::npos) << out;
  EXPECT_NE(out.find("1 (a, c); 0 (b)"), std::string::npos) << out;
  for (const char* same : {"batch", "steps ", "corpus", "\nout "}) EXPECT_EQ(out.find(same), std::string::npos) << out;
  const std::string alike = toy("runs compare " + path("runs/a") + " " + path("runs/c")).out;
  EXPECT_EQ(alike.find("(a"), std::string::npos) << alike;
}

TEST_F(CliRuns, NarrowAndPlainTerminals) {
  trained("run");
  for (const char* width : {"20", "8"}) {
    const Result r = toy("runs show " + path("run") + " --ascii --metric loss --width " + width);
    ASSERT_EQ(r.code, 0) << r.err;
    std::istringstream in(r.out.substr(r.out.find("Loss")));
    for (std::string line; std::getline(in, line);) {
      EXPECT_LE(line.size(), size_t(std::stoi(width))) << line;
      for (const char c : line) EXPECT_TRUE(c >= 32 && c < 127) << line;
    }
  }
  // No value is lost however narrow it is: the folder goes on below.
  for (const char* width : {"8", "20", "30", "80"}) {
    const Result r = toy("runs show " + path("run") + " --ascii --metric loss --width " + width);
    ASSERT_EQ(r.code, 0) << r.err;
    const std::string facts = r.out.substr(0, r.out.find("Loss"));
    std::string joined;
    std::istringstream in(facts);
    for (std::string line; std::getline(in, line);) {
      EXPECT_LE(line.size(), size_t(std::stoi(width))) << line;
      joined += line.substr(std::min(line.size(), line.find_first_not_of(' ')));
    }
    EXPECT_NE(joined.find(path("run")), std::string::npos) << facts;
    EXPECT_NE(joined.find("done"), std::string::npos) << facts;
  }
  EXPECT_NE(toy("runs show " + path("run") + " --metric loss").out.find(path("run") + "\n"),
            std::string::npos);  // a pipe
  setenv("LC_ALL", "C", 1);
  const Result plain = toy("runs show " + path("run"));
  unsetenv("LC_ALL");
  EXPECT_EQ(plain.out.find('\xe2'), std::string::npos);  // no braille where the locale has no UTF-8
}

TEST_F(CliRuns, Tail) {
  trained("run");
  const Result raw = toy("runs tail " + path("run") + " --json -n 3");
  ASSERT_EQ(raw.code, 0) << raw.err;
  const auto lines = lines_of(raw.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.back().at("kind"), "run_end");
  const Result text = toy("runs tail " + path("run") + " -n 100 --follow");  // has ended: does not wait
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("step 6  loss"), std::string::npos) << text.out;
  EXPECT_EQ(toy("runs tail " + path("run") + " -n 0").out, "");
  refuses("runs tail " + path("run") + " -n -1", {"--lines is -1", "0 to"});
}

// Only the date that a run says of itself follows the wall clock; its times, its end and its weights do not.
TEST_F(CliRuns, AClockThatJumps) {
  trained("calm");
  const std::string command = std::string("LD_PRELOAD=") + TOY_CLOCK_SHIM + " " + TOY_BINARY + " " +
                              train("run", "--eval-every 2 --time-limit 1h --tensorboard " + path("board")) + " >" +
                              path("o") + " 2>" + path("e");
  ASSERT_EQ(std::system(command.c_str()), 0) << slurp(path("e"));
  double t = 0;
  const auto lines = lines_of(slurp(path("run/events.jsonl")));
  for (const json& line : lines) {
    EXPECT_GE(line.at("t"), t);
    t = line.at("t");
  }
  EXPECT_LT(t, 3600);
  EXPECT_EQ(lines.back().at("reason"), "done");
  const auto year = [this](const char* run) {
    const auto start = lines_of(slurp(path(std::string(run) + "/events.jsonl"))).front();
    return std::stoi(start.at("time").get<std::string>().substr(0, 4));
  };
  EXPECT_GE(std::abs(year("run") - year("calm")), 9);  // it did jump
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("calm/model.gguf")));
}

TEST_F(CliRuns, TornLogsAreReadAndSaid) {
  trained("run");
  const std::string log = slurp(path("run/events.jsonl"));
  write("run/events.jsonl", log.substr(0, log.size() - 20));
  const Result r = toy("runs show " + path("run") + " --json");
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("the last line is torn"), std::string::npos) << r.err;
  EXPECT_EQ(json::parse(r.out).at("status"), "stopped");
}

TEST_F(CliRuns, AFailedRunSaysWhy) {
  const Result r = toy(train("run", "--lr 1e30 --clip 0 --optimizer 'sgd(momentum=0)' --max-skipped 3"));
  EXPECT_EQ(r.code, 2) << r.err;
  const json end = lines_of(slurp(path("run/events.jsonl"))).back();
  EXPECT_EQ(end.at("kind"), "run_end");
  EXPECT_EQ(end.at("exit_code"), 2);
  EXPECT_NE(end.at("error").get<std::string>().find("diverged"), std::string::npos);
  const json shown = json::parse(toy("runs show " + path("run") + " --json").out);
  EXPECT_EQ(shown.at("status"), "failed");
  EXPECT_EQ(shown.at("exit_code"), 2);
  EXPECT_EQ(shown.at("error"), end.at("error"));
  const std::string text = toy("runs show " + path("run")).out;
  EXPECT_NE(text.find(end.at("error").get<std::string>()), std::string::npos) << text;
  EXPECT_NE(text.find("exit code"), std::string::npos) << text;
}

TEST_F(CliRuns, BadInput) {
  trained("run");
  const std::string run = path("run");
  refuses("runs list " + path("none"), {"none", "no such folder"});
  refuses("runs list " + run + " --sort speed", {"'speed'", "loss"});
  refuses("runs show nothing", {"'nothing' is not a file"});
  refuses("runs show " + write("text", "hello\nthere\n"), {"text", "not the log of a run"});
  refuses("runs show " + run + " --metric speed", {"'speed'", "grad_norm"});
  refuses("runs show " + run + " --metric tap", {"the run has no tap"});
  refuses("runs show " + run + " --width 3", {"width is 3"});
  refuses("runs compare " + run, {"there is one run"});
  refuses("runs report " + run + " " + run + " --out " + path("twice.html"), {"named twice"});
  refuses("runs report " + run + " " + run + "/events.jsonl --out " + path("twice.html"), {"named twice"});
  EXPECT_FALSE(fs::exists(path("twice.html")));
  refuses("runs compare " + run + " " + run + " --metric tap", {"metric 'tap'"});
  for (const char* file : {"events.jsonl", "config.json", "model.gguf"}) {
    const std::string before = slurp(run + "/" + file);
    refuses("runs report " + run + " --out " + run + "/" + file, {file, "ends with .html"});
    refuses("runs compare " + run + " " + run + " --svg " + run + "/" + file, {file, "not written by this command"});
    EXPECT_EQ(slurp(run + "/" + file), before);
  }
  for (const char* text : {"<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>mine", "x"})
    refuses("runs report " + run + " --out " + write("page.html", text), {"page.html", "not written by this command"});
  const std::string drawing = "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 720 380\"></svg>";
  refuses("runs compare " + run + " " + run + " --svg " + write("mine.svg", drawing),
          {"mine.svg", "not written by this command"});
  write("again.html", "");
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(toy("runs report " + run + " --out " + path("again.html")).code, 0);
    EXPECT_EQ(toy("runs compare " + run + " " + run + " --svg " + path("again.svg")).code, 0);
  }
  refuses(train("x", "--tap nothing"), {"tap: no name fits 'nothing'"});
  refuses(train("x", "--tap x_final:0"), {"tap", "at least 1"});
  refuses(train("x", "--grads ':3'"), {"grads", "no pattern"});
  refuses(train("x", "--drift 'blk.7.*'"), {"drift: no name fits"});
  refuses(train("x", "--op-timing -1"), {"op-timing is -1"});
  refuses(train("x", "--op-timing linaer:3"), {"op-timing: no name fits 'linaer'", "Did you mean 'linear'?"});
  refuses(train("x", "--tensorboard " + path("corpus.txt")), {"tensorboard", "corpus.txt"});
  EXPECT_FALSE(fs::exists(path("x/events.jsonl")));
  refuses("runs show " + run + " --json --metric loss", {"--json", "leave --metric out"});
  refuses("runs show " + run + " --json --width 80", {"--json", "leave --width out"});
  const Result none = [&] {
    std::filesystem::create_directories(path("empty"));
    return toy("runs list " + path("empty"));
  }();
  EXPECT_EQ(none.code, 0);
  EXPECT_NE(none.err.find("no runs in " + path("empty")), std::string::npos);
}

TEST_F(CliRuns, WhatTheFileSystemRefuses) {
  fs::create_directory_symlink("loop", path("loop"));
  refuses("runs list " + path("loop"), {"'" + path("loop") + "' cannot be read"});
  fs::create_directories(path("pipe"));
  ASSERT_EQ(std::system(("mkfifo " + path("pipe/events.jsonl")).c_str()), 0);
  refuses("runs show " + path("pipe"), {path("pipe/events.jsonl"), "a pipe"});
  refuses("runs tail " + path("pipe"), {"a pipe"});
  if (geteuid() == 0) return;  // root reads everything
  fs::create_directories(path("closed"));
  fs::permissions(path("closed"), fs::perms::none);
  refuses("runs list " + path("closed"), {"'" + path("closed") + "' cannot be read"});
  fs::permissions(path("closed"), fs::perms::all);
}

TEST_F(CliRuns, NamesChangeNothingOnATerminal) {
  const std::string name = "\"$(printf 'n\\nm\\033[32m')\"";
  const Result r = toy(train("run", "--name " + name + " "));
  ASSERT_EQ(r.code, 0) << r.err;
  for (const std::string& shown :
       {r.err, toy("runs list " + path()).out, toy("runs show " + path("run") + " --metric loss --ascii").out}) {
    EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
    EXPECT_NE(shown.find("n?m?[32m"), std::string::npos) << shown;
  }
}

TEST_F(CliRuns, TensorBoardFiles) {
  trained("run", "--tensorboard " + path("tb"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("tb")), fs::directory_iterator()), 1);
}

}  // namespace

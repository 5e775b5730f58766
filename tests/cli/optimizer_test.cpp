// toy train: every optimizer and schedule, groups of tensors, averages, and the ways in which a run ends early.
#include <cmath>
#include <map>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliOptimizer : public Cli {
 protected:
  // No --lr: the optimizer's own.
  std::string train(int steps = 4, int threads = 1, const std::string& out = "run") const {
    return "train from-scratch --corpus " + tiny_corpus() + " --size tiny --tokenizer bytes --batch 2 --tokens 16 " +
           "--steps " + std::to_string(steps) + " --threads " + std::to_string(threads) + " --overwrite --out " +
           path(out) + " ";
  }
  std::vector<json> events(const std::string& arguments, int code = 0) const {
    const Result r = toy(arguments + " --json");
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    std::istringstream lines(r.out);
    std::vector<json> list;
    for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
    return list;
  }
  static std::vector<json> of_kind(const std::vector<json>& all, const std::string& kind) {
    std::vector<json> list;
    for (const json& j : all)
      if (j.at("kind") == kind) list.push_back(j);
    return list;
  }
  std::vector<double> rates(const std::string& arguments) const {
    std::vector<double> list;
    for (const json& j : of_kind(events(arguments), "step")) list.push_back(j.at("lr"));
    return list;
  }
  double last_loss(const std::string& arguments) const {
    return of_kind(events(arguments), "step").back().at("loss").get<double>();
  }
};

TEST_F(CliOptimizer, EachHasItsOwnNumbers) {
  const std::map<std::string, std::pair<double, std::string>> defaults{
      {"adamw", {1e-3, "(beta1=0.9, beta2=0.95, eps=1e-8)' --weight-decay 0.1"}},
      {"adamw8", {1e-3, "(beta1=0.9, beta2=0.95, eps=1e-8)' --weight-decay 0.1"}},
      {"sgd", {0.1, "(momentum=0.9, nesterov=false)' --weight-decay 1e-4"}},
      {"lion", {1e-4, "(beta1=0.9, beta2=0.99)' --weight-decay 1"}},
      {"adafactor", {1e-3, "(eps=1e-15, decay_rate=0.8, update_clip=1)' --weight-decay 0.1"}},
      {"muon", {0.02, "(momentum=0.95, nesterov=true, adamw_factor=0.05, scale=original)' --weight-decay 0.01"}}};
  const std::string help = toy("train from-scratch --help").out;
  for (const auto& [name, numbers] : defaults) {
    const std::string command = train() + "--optimizer " + name + " ";
    const auto all = of_kind(events(command + "--warmup 0"), "step");
    EXPECT_DOUBLE_EQ(all.front().at("lr"), numbers.first) << name;
    EXPECT_EQ(last_loss(train() + "--warmup 0 --optimizer '" + name + numbers.second), all.back().at("loss")) << name;
    EXPECT_EQ(last_loss(train(4, 2) + "--warmup 0 --optimizer " + name), all.back().at("loss")) << name;
    EXPECT_NE(help.find(name + " "), std::string::npos) << name;
    EXPECT_EQ(toy(command + "--update streaming --clip 0").code, 0) << name;
  }
}

TEST_F(CliOptimizer, EachSettingMatters) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> settings{
      {"adamw8", {"beta1=0.5", "beta2=0.5", "eps=0.01"}},
      {"lion", {"beta1=0.1", "beta2=0.5"}},
      {"adafactor", {"eps=0.1", "decay_rate=0.1", "update_clip=0.1", "relative_step=true"}},
      {"muon",
       {"momentum=0.5", "nesterov=false", "momentum=0", "scale=match-rms", "adamw_factor=1", "beta1=0.1", "beta2=0.5",
        "eps=0.01"}}};
  for (const auto& [name, list] : settings) {
    const std::string command = train() + "--lr 0.01 --optimizer ";
    const double plain = last_loss(command + name);
    EXPECT_NE(last_loss(command + name + " --weight-decay 100"), plain) << name;
    for (const std::string& s : list)
      EXPECT_NE(last_loss(command + "'" + name + "(" + s + ")'"), plain) << name << " " << s;
  }
}

TEST_F(CliOptimizer, SettingsOfOthersAreRefused) {
  refuses(train() + "--optimizer 'adamw(momentum=0.9)'",
          {"--optimizer: adamw has no 'momentum'",
           "it has beta1 (0 to below 1), beta2 (0 to below 1), eps (a number above 0)"});
  refuses(train() + "--optimizer 'sgd(momentun=0.9)'", {"sgd has no 'momentun' (did you mean 'momentum'?)"});
  refuses(train() + "--optimizer 'lion(eps=1)'", {"lion has no 'eps'"});
  refuses(train() + "--optimizer 'muon(scale=other)'", {"muon's scale is 'other'", "original or match-rms"});
  refuses(train() + "--optimizer 'adafactor(update_clip=0)'", {"update_clip is 0", "above 0"});
  refuses(train() + "--optimizer 'muon(adamw_factor=-1)'", {"adamw_factor is -1", "0 or more"});
  refuses(train() + "--lr 0", {"lr is 0"});
}

TEST_F(CliOptimizer, Schedules) {
  const std::string command = train(10) + "--lr 1 --warmup 2 --clip 1e-9 --weight-decay 0 ";
  EXPECT_EQ(rates(command + "--schedule constant"), (std::vector<double>{0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  const auto wsd = rates(command + "--schedule 'wsd(decay=4)' --final-lr 0");
  EXPECT_EQ(wsd, (std::vector<double>{0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0}));
  const auto line = rates(command + "--schedule linear --final-lr 0.3");
  for (size_t i = 2; i < 10; ++i) EXPECT_NEAR(line[i], 1 - 0.1 * double(i - 2), 1e-12);
  EXPECT_EQ(rates(command), rates(command + "--schedule cosine"));
  EXPECT_EQ(rates(command + "--schedule wsd").at(8), 0.55);  // a fifth: 2 steps down to 0.1
  refuses(command + "--schedule 'wsd(decay=9)'", {"warmup 2 and decay 9", "10 steps"});
  refuses(command + "--schedule 'wsd(decay=11)'", {"decay is 11"});
  refuses(command + "--schedule 'cosine(decay=2)'", {"--schedule: cosine has no 'decay'"});
  refuses(command + "--schedule constant --final-lr 0", {"--final-lr", "constant"});
  refuses(command + "--schedule square", {"--schedule: there is no 'square'", "constant, linear, cosine, wsd"});
  refuses(train(10) + "--warmup 11", {"warmup is 11"});
}

TEST_F(CliOptimizer, GroupsByPattern) {
  const double plain = last_loss(train());
  EXPECT_EQ(last_loss(train() + "--lr-for '*=1'"), plain);
  EXPECT_NE(last_loss(train() + "--lr-for 'blk.*=0.1'"), plain);
  EXPECT_EQ(last_loss(train() + "--lr-for 'blk.*=0.1' --lr-for '*=1'"), plain);  // the last that fits
  EXPECT_NE(last_loss(train() + "--weight-decay 10 --no-decay '*'"), last_loss(train() + "--weight-decay 10"));
  EXPECT_EQ(last_loss(train() + "--weight-decay 10 --no-decay '*'"), last_loss(train() + "--weight-decay 0"));
  refuses(train() + "--lr-for 'nothing.*=2'", {"lr-for", "'nothing.*'"});
  refuses(train() + "--no-decay nothing", {"no-decay", "'nothing'"});
  refuses(train() + "--lr-for 'blk.*'", {"PATTERN=FACTOR"});
  refuses(train() + "--lr-for 'blk.*=fast'", {"--lr-for", "a number", "'fast'"});
  refuses(train() + "--lr-for 'blk.*=-1'", {"lr_for blk.* is -1"});
}

TEST_F(CliOptimizer, AveragesAreValidatedAndSaved) {
  const auto all = events(train(30) + "--lr 1e-2 --ema 0.8 --eval-every 15");
  const auto evals = of_kind(all, "eval");
  ASSERT_EQ(evals.size(), 2u);
  for (const json& e : evals) EXPECT_NE(e.at("average_loss"), e.at("loss"));
  const std::string average = path("run/model-ema.gguf");
  EXPECT_EQ(all.back().at("average_model"), average);
  EXPECT_NE(slurp(average), slurp(path("run/model.gguf")));
  // The file is what was validated: a run of one step at a rate of nothing begins where it is.
  EXPECT_EQ(toy("describe " + average).code, 0);
  const auto without = events(train(30, 1, "plain") + "--lr 1e-2 --eval-every 15");
  EXPECT_FALSE(of_kind(without, "eval").back().contains("average_loss"));
  EXPECT_EQ(of_kind(without, "eval").back().at("loss"), evals.back().at("loss"));  // the average changes nothing
  EXPECT_FALSE(fs::exists(path("plain/model-ema.gguf")));
  refuses(train() + "--ema 1", {"ema is 1", "below 1"});
}

// At a rate of almost nothing validation stays where it is.
TEST_F(CliOptimizer, PatienceEndsARun) {
  const auto all = events(train(40) + "--lr 1e-3 --min-delta 100 --eval-every 2 --eval-tokens 40 --patience 3");
  EXPECT_EQ(of_kind(all, "step").size(), 8u);  // the first validation is the best, then three that are not better
  EXPECT_EQ(all.back().at("reason"), "patience");
  EXPECT_TRUE(of_kind(all, "eval").back().at("whole").get<bool>());
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
  const auto better = events(train(12) + "--lr 1e-3 --eval-every 2 --patience 3");
  EXPECT_EQ(of_kind(better, "step").size(), 12u);
  EXPECT_EQ(better.back().at("reason"), "done");
  refuses(train() + "--patience 2", {"patience is 2", "--eval-every"});
  refuses(train() + "--patience -1", {"--patience is -1", "0 or more"});
  refuses(train() + "--min-delta 1", {"--min-delta", "--patience"});
  refuses(train() + "--eval-every 1 --patience 1 --min-delta -1", {"--min-delta is -1", "0 or more"});
}

TEST_F(CliOptimizer, ATimeLimitEndsARun) {
  const std::string many = train(1000000) + "--schedule constant --lr 1e-3 ";
  const auto all = events(many + "--time-limit 0.2s");
  EXPECT_EQ(all.back().at("reason"), "time");
  EXPECT_LT(of_kind(all, "step").size(), 1000000u);
  EXPECT_TRUE(of_kind(all, "eval").back().at("whole").get<bool>());
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
  EXPECT_EQ(of_kind(events(train(3, 1, "other") + "--time-limit 2h"), "step").size(), 3u);
  for (const char* bad : {"90", "soon", "-1s", "0m", "10 m", "1d"})
    refuses(train() + "--time-limit '" + bad + "'", {"time-limit is '" + std::string(bad) + "'", "90s, 10m or 2h"});
}

// The first step makes weights of 10^28: the norm of every gradient behind it is beyond f32, those steps are skipped,
// and three in a row are the end.
TEST_F(CliOptimizer, TooManySkippedStepsAreFatal) {
  const std::string broken = train(50) + "--optimizer sgd --lr 1e30 --clip 0 --schedule constant --warmup 0 ";
  const Result r = toy(broken + "--max-skipped 3");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("training diverged: the gradient of 3 steps in a row, up to step 4,"), std::string::npos)
      << r.err;
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));  // the weights before the skipped steps
  refuses(train() + "--max-skipped 0", {"--max-skipped is 0", "1 or more"});
}

// Logits that are no numbers choose no token, which is not what the run ends by.
TEST_F(CliOptimizer, ARunThatDivergesMissesItsSamplesAlone) {
  const Result r = toy(train(3) +
                       "--optimizer sgd --lr 1e13 --clip 0 --schedule constant --warmup 0 --eval-every 1 "
                       "--sample 4");
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("step 1: there is no sample: the model gives "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("training failed: "), std::string::npos) << r.err;
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
}

}  // namespace

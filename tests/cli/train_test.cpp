// toy train warm-start, and the optimizer's options.
#include <cmath>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliTrain : public Cli {
 protected:
  std::string model() const {
    const Result r =
        toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 40 --name first --out " + path("first"));
    EXPECT_EQ(r.code, 0) << r.err;
    return path("first/model.gguf");
  }
  std::string warm(const std::string& init, const std::string& out = "second", int tokens = 16) const {
    return "train warm-start --corpus " + tiny_corpus() + " --batch 2 --tokens " + std::to_string(tokens) + " --init " +
           init + " --out " + path(out) + " ";
  }
  static double last_loss(const std::string& out) {
    const size_t at = out.rfind("loss=");
    return at == std::string::npos ? NAN : std::stod(out.substr(at + 5));
  }
};

TEST_F(CliTrain, WarmStartGoesOnFromAFile) {
  const std::string first = model(), bytes = slurp(first);
  // A corpus of one window: the first loss is what eval says of it in the same window.
  const std::string text = "the cat sat on ma";  // 16 tokens and their next ones
  const Result e = toy("eval " + first + " --file " + write("window.txt", text) + " --ctx 16 --json");
  const Result t =
      toy("train warm-start --corpus " + write("window.txt", text) + " --val-fraction 0 --batch 1 --tokens 16" +
          " --init " + first + " --steps 1 --json --out " + path("second"));
  ASSERT_EQ(t.code, 0) << t.err;
  std::istringstream lines(t.out);
  double loss = NAN;
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    const json j = json::parse(line);
    if (j.at("kind") == "step") loss = j.at("loss");
    if (j.at("kind") == "run_start") name = j.at("model").at("name");
  }
  // f32 against f64: sums of 256 terms (tests/eval/score_test.cpp).
  EXPECT_NEAR(loss, json::parse(e.out).at("nats_per_token"), (256 + 8) * 0x1p-24 * loss);
  EXPECT_EQ(name, "first");
  EXPECT_LT(loss, 4);              // a new model begins at log 256 = 5.5
  EXPECT_EQ(slurp(first), bytes);  // not touched
  EXPECT_NE(slurp(path("second/model.gguf")), bytes);
}

TEST_F(CliTrain, WarmStartIsDeterministicAndMayWriteOverItsOwnFile) {
  const std::string first = model();
  std::string out, bytes;
  for (const char* threads : {"1", "3"}) {
    const Result r = toy(warm(first) + "--steps 5 --overwrite --threads " + threads);
    ASSERT_EQ(r.code, 0) << r.err;
    if (out.empty()) out = r.out, bytes = slurp(path("second/model.gguf"));
    EXPECT_EQ(r.out, out);
    EXPECT_EQ(slurp(path("second/model.gguf")), bytes);
  }
  const std::string before = slurp(first);
  refuses(warm(first, "first") + "--steps 5", {"the model that this run begins with", "--overwrite"});
  EXPECT_EQ(slurp(first), before);
  const Result over = toy(warm(first, "first") + "--steps 5 --overwrite");
  ASSERT_EQ(over.code, 0) << over.err;
  EXPECT_EQ(slurp(first), bytes);
}

TEST_F(CliTrain, ContextAndNameMayChange) {
  const std::string first = model();
  ASSERT_EQ(toy(warm(first) + "--steps 1 --context 4096 --name second").code, 0);
  const json j = json::parse(toy("describe " + path("second/model.gguf") + " --json").out).at("model");
  EXPECT_EQ(j.at("name"), "second");
  EXPECT_EQ(j.at("context"), 4096);
}

TEST_F(CliTrain, OptimizerOptionsMatter) {
  const std::string train =
      "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 4 --overwrite --out " + path("run");
  const double plain = last_loss(toy(train).out);
  EXPECT_EQ(last_loss(toy(train + " --optimizer 'adamw(beta1=0.9, beta2=0.95, eps=1e-8)'").out), plain);
  for (const char* setting : {"beta1=0.5", "beta2=0.5", "eps=0.01"})
    EXPECT_NE(last_loss(toy(train + " --optimizer 'adamw(" + setting + ")'").out), plain) << setting;
  refuses(train + " --optimizer 'adamw(beta1=1)'", {"--optimizer: adamw's beta1 is 1", "0 to below 1"});
  refuses(train + " --dropout 1", {"dropout is 1", "below 1"});
  refuses(train + " --dropout -0.1", {"dropout is -0.1", "0 to below 1"});
  EXPECT_EQ(last_loss(toy(train + " --dropout 0").out), plain);
  EXPECT_NE(last_loss(toy(train + " --dropout 0.2").out), plain);
  refuses(train + " --optimizer 'adamw(eps=0)'", {"adamw's eps is 0", "above 0"});
  refuses(train + " --optimizer 'adamw(eps=nan)'", {"adamw's eps is 'nan'", "finite"});
  refuses(train + " --weight-decay -1", {"weight-decay is -1"});
}

TEST_F(CliTrain, Sgd) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 4 --overwrite --out " +
                            path("run") + " --optimizer ";
  const double plain = last_loss(toy(train + "sgd").out);
  EXPECT_EQ(last_loss(toy(train + "'sgd(momentum=0.9)'").out), plain);
  for (const char* option : {"'sgd(momentum=0)'", "'sgd(nesterov=true)'", "sgd --weight-decay 0.5"})
    EXPECT_NE(last_loss(toy(train + option).out), plain) << option;
  const auto planned = [&](const std::string& option) {
    const std::string out = toy(train + option + " --json").out;
    return json::parse(out.substr(0, out.find('\n'))).at("planned_bytes").get<int64_t>();
  };
  EXPECT_GT(planned("sgd"), planned("'sgd(momentum=0)'"));
  refuses(train + "'sgd(momentum=1)'", {"momentum is 1", "below 1"});
  refuses(train + "'sgd(momentum=0, nesterov=true)'", {"nesterov", "momentum"});
  refuses(train + "adam", {"--optimizer: there is no 'adam'; did you mean 'adamw'?"});
}

// Every step skipped, or a model that predicts nothing: that is no success, and the weights are there to look at.
TEST_F(CliTrain, ARunThatLearnsNothingFails) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() +
                            " --tokenizer bytes --batch 2 --tokens 16 --overwrite --out " + path("run") + " ";
  for (const auto& [options, said] :
       {std::pair("--size tiny --steps 3 --init-scale 1e38", "3 of 3 steps"),
        {"--size tiny --steps 3 --lr 1e30 --warmup 0 --clip 0", "2 of 3 steps"},
        {"--size gpt2-tiny --steps 1 --lr 1e30 --warmup 0", "the validation loss after"}}) {
    const Result r = toy(train + options);
    EXPECT_EQ(r.code, 2) << options << r.err;
    EXPECT_NE(r.err.find(said), std::string::npos) << options << r.err;
    const nlohmann::json shown = nlohmann::json::parse(toy("runs show " + path("run") + " --json").out);
    EXPECT_EQ(shown.at("status"), "failed") << options;
  }
}

// What a file asks for and does not get is said by whoever goes on from it, too.
TEST_F(CliTrain, WarmStartWarnsAboutItsFile) {
  const std::string dimensions = write("window.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 2, "n_kv": 1,
    "d_head": 8, "d_ff": 24, "window": 7, "qk_norm": true})");
  const std::string corpus = "--corpus " + tiny_corpus() + " --batch 2 --tokens 16 --steps 1 ";
  const Result first =
      toy("train from-scratch " + corpus + "--tokenizer bytes --size " + dimensions + " --out " + path("a"));
  ASSERT_EQ(first.code, 0) << first.err;
  const Result second = toy("train warm-start --init " + path("a/model.gguf") + " " + corpus + "--out " + path("b"));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find(path("a/model.gguf") + ": "), std::string::npos) << second.err;
  EXPECT_NE(second.err.find("window"), std::string::npos) << second.err;
}

TEST_F(CliTrain, WarmStartRefusesWeightsThatAreNotNumbers) {
  const std::string corpus = "--corpus " + tiny_corpus() + " --batch 2 --tokens 16 --steps 1 ";
  ASSERT_EQ(toy("train from-scratch --tokenizer bytes --size tiny " + corpus + "--out " + path("a")).code, 0);
  std::string file = slurp(path("a/model.gguf"));
  file.replace(file.size() - 400, 4, "\xff\xff\xff\xff");
  refuses("train warm-start --init " + write("nan.gguf", file) + " " + corpus + "--out " + path("b"),
          {"nan.gguf: tensor '", "nan, and nothing can be learned", "give weights that are finite"});
  EXPECT_FALSE(fs::exists(path("b")));  // nothing was written, so the folder is taken away again
}

TEST_F(CliTrain, OptionsWithoutEffectAreSaid) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() + " --size tiny --batch 2 --tokens 16 " +
                            "--steps 1 --overwrite --out " + path("run");
  refuses(train + " --tokenizer bytes --tokenizer-bytes 100", {"tokenizer-bytes", "'bytes' is not trained"});
  const Result r = toy(train + " --tokenizer bytes --val-fraction 0 --sample 4");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("sample: no validation text"), std::string::npos) << r.err;
}

TEST_F(CliTrain, AModelThatIsReplacedIsNamed) {
  const std::string train =
      "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --overwrite --out " + path("run");
  EXPECT_EQ(toy(train).err.find("of an earlier run"), std::string::npos);
  EXPECT_NE(toy(train).err.find(path("run/model.gguf") + " is of an earlier run"), std::string::npos);
}

TEST_F(CliTrain, NamesThatTheDiskRefuses) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 ";
  refuses(train + "--out " + path(std::string(300, 'x')), {"xxx", "File name too long"});
}

TEST_F(CliTrain, ACorpusMayBeAPipe) {
  const std::string command = "cat " + tiny_corpus() + " | " TOY_BINARY " train from-scratch --corpus /dev/stdin" +
                              kSmall + "--steps 1 --overwrite --out " + path("run") + " >" + path("o") + " 2>" +
                              path("e");
  EXPECT_EQ(std::system(command.c_str()), 0) << slurp(path("e"));
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
}

// What a run reads, and what no run wrote, is not written over.
TEST_F(CliTrain, NothingIsLostInTheFolder) {
  const auto untouched = [&](const std::string& file, const std::string& options, const std::string& words) {
    const std::string before = slurp(path(file));
    refuses("train " + options + " --batch 2 --tokens 8 --steps 1 --threads 1", {file, words});
    EXPECT_EQ(slurp(path(file)), before);
  };
  for (const char* name : {"config.json", "flow.json", ".lock", "events.jsonl", "events.previous.jsonl", "model.gguf",
                           "weights/latest.gguf"}) {
    const std::string file = std::string("of_") + name + "/" + name,
                      folder = file.substr(0, file.size() - std::string(name).size());
    fs::create_directories(fs::path(path(file)).parent_path());
    fs::copy_file(tiny_corpus(), path(file));
    for (const char* more : {"", " --dry-run"})
      untouched(file, "from-scratch --size tiny --corpus " + path(file) + " --out " + path(folder) + more, "--corpus");
    untouched(file,
              "from-scratch --size tiny --corpus " + tiny_corpus() + " --val " + path(file) + " --out " + path(folder),
              "--val");
  }
  fs::create_directories(path("a"));
  write("a/config.json", R"({"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 24})");
  const std::string corpus = " --corpus " + tiny_corpus();
  untouched("a/config.json", "from-scratch --size " + path("a/config.json") + corpus + " --out " + path("a"), "--size");
  untouched("a/config.json", "from-scratch --size tiny" + corpus + " --out " + path("a"), "events.jsonl");
  EXPECT_FALSE(fs::exists(path("a/model.gguf")));
  fs::create_directories(path("m"));
  fs::copy_file(TOY_GOLDEN, path("m/model.gguf"));
  untouched("m/model.gguf", "from-scratch --size tiny" + corpus + " --out " + path("m"), "events.jsonl");
  fs::copy_file(TOY_GOLDEN, path("model-ema.gguf"));
  untouched("model-ema.gguf", "warm-start --init " + path("model-ema.gguf") + corpus + " --out " + path(), "--init");
  // A run's own files make room for the next one's, whichever way its folder is written.
  const std::string run = "train from-scratch" + corpus + kSmall + "--steps 1 --out " + path("r") + "/new/../../r";
  EXPECT_EQ(toy(run).code, 0);
  refuses(run, {"model.gguf' is of an earlier run and would be lost", "--overwrite"});
  EXPECT_EQ(toy(run + " --overwrite").code, 0);
  EXPECT_TRUE(fs::exists(path("r/model.gguf")));
  // The second name of the model stands for --init only while it is the same file.
  const std::string second = path("r/weights/latest.gguf"),
                    warm = "warm-start" + corpus + " --out " + path("r") + " --init " + second;
  EXPECT_EQ(toy("train " + warm + " --batch 2 --tokens 8 --steps 1 --overwrite").code, 0);
  fs::remove(second);
  fs::copy_file(TOY_GOLDEN, second);
  untouched("r/weights/latest.gguf", warm, "--init");
}

// A log or checkpoints that no run wrote do not make a folder a run's.
TEST_F(CliTrain, WhatLooksLikeARunIsNoRun) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --out ";
  const auto untouched = [&](const std::string& folder, const std::string& name) {
    const std::string file = path(folder + "/" + name);
    fs::create_directories(fs::path(file).parent_path());
    write(folder + "/" + name, "precious");
    refuses(train + path(folder), {file, "exists without a run"});
    EXPECT_EQ(slurp(file), "precious");
  };
  untouched("a", "weights/latest.gguf");
  fs::create_directories(path("b/checkpoints/epoch1"));
  untouched("b", "model.gguf");
  fs::create_directories(path("c"));
  write("c/events.jsonl", "hello\n");
  untouched("c", "model.gguf");
  write("c/events.jsonl", "");
  untouched("c", "model.gguf");
  // A run that was killed before its first event, or had no room for it, may be repeated.
  for (const char* log : {"", R"({"kind":"run_start","t":0,"sch)"}) {
    fs::remove_all(path("d"));
    fs::create_directories(path("d"));
    write("d/events.jsonl", log);
    write("d/config.json", "{}");
    const Result r = toy(train + path("d"));
    EXPECT_EQ(r.code, 0) << r.err;
  }
}

// What cannot be written at the end is said at the beginning.
TEST_F(CliTrain, NamesThatAreTakenAreSaidBeforeTraining) {
  const std::string train =
      "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 1 --overwrite --out " + path("run");
  const auto refused = [&](const std::vector<std::string>& words, const std::string& more = "") {
    refuses(train + more, words);
    EXPECT_FALSE(fs::exists(path("run/events.jsonl")));
    fs::remove_all(path("run"));
    fs::create_directories(path("run"));
  };
  fs::create_directories(path("run"));
  write("run/weights", "precious");
  refused({path("run/weights"), "not a folder"});
  fs::create_directories(path("run/finished.json"));
  refused({path("run/finished.json"), "is a folder"});
  fs::create_directories(path("run/checkpoints/best"));
  refused({path("run/checkpoints/best"), "not a checkpoint"});
  for (const char* name : {"model.gguf", "model.gguf/below", "weights/latest.gguf", "checkpoints/best"})
    refused({"tensorboard", path("run/") + name}, " --tensorboard " + path("run/") + name);
  EXPECT_EQ(toy(train + " --tensorboard " + path("run/board")).code, 0);
}

// Weights that f16 would make infinities of are written to no file, and are not lost.
TEST_F(CliTrain, WeightsBeyondF16) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() +
                            " --tokenizer bytes --batch 2 --tokens 16 --size tiny --steps 3 --optimizer lion --lr 1e6 "
                            "--warmup 0 --weight-decay 0 --out " +
                            path("run");
  const Result half = toy(train + " --dtype f16");
  EXPECT_EQ(half.code, 2) << half.err;
  EXPECT_NE(half.err.find("f16 goes to 65504"), std::string::npos) << half.err;
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
  // A checkpoint of that step that is there already is left as it is.
  EXPECT_EQ(toy(train + "2 --dtype f16 --checkpoint-every 3").code, 2);
  for (const auto& e : fs::directory_iterator(path("run2/checkpoints")))
    EXPECT_FALSE(e.path().filename().string().starts_with("damaged_")) << e.path();
  const Result r = toy(train + " --dtype bf16 --resume --allow-changes");
  EXPECT_TRUE(fs::exists(path("run/model.gguf"))) << r.err;
}

// A validation that was asked for has something to read.
TEST_F(CliTrain, ValidationWithoutText) {
  const std::string train =
      "train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 2 --overwrite --out " + path("run");
  refuses(train + " --val " + write("one.txt", "a"), {"val: no validation text has two tokens"});
  refuses(train + " --val-fraction 0 --eval-every 1 --patience 1", {"patience: no validation text", "--val-fraction"});
  const Result r = toy(train + " --val-fraction 0 --eval-every 1");
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.err.find("nothing to validate on"), std::string::npos) << r.err;
}

// Of a large text a twentieth is much more than a few steps learn from.
TEST_F(CliTrain, ValidationThatTakesLongerThanAllSteps) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "abc.\n";
  const std::string train =
      "train from-scratch --corpus " + write("large.txt", text) + kSmall + "--steps 1 --overwrite --out " + path("run");
  const Result most = toy(train + " --val-fraction 0.9");
  EXPECT_EQ(most.code, 0);
  EXPECT_NE(most.err.find("takes longer than all steps"), std::string::npos) << most.err;
  EXPECT_NE(most.err.find("--eval-tokens N reads a part"), std::string::npos) << most.err;
  for (const char* less : {"", " --val-fraction 0.9 --eval-tokens 200"}) {
    const Result r = toy(train + less);
    EXPECT_EQ(r.code, 0);
    EXPECT_EQ(r.err.find("takes longer"), std::string::npos) << r.err;
  }
}

TEST_F(CliTrain, OptionsThatWouldDoNothing) {
  const std::string corpus = tiny_corpus();
  const std::string train =
      "train from-scratch --corpus " + corpus + kSmall + "--steps 1 --overwrite --out " + path("run");
  refuses(train + " --val " + corpus + " --val-fraction 0.5", {"--val", "--val-fraction", "give one of them"});
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
}

TEST_F(CliTrain, BadWarmStarts) {
  const std::string first = model();
  refuses("train warm-start --corpus " + tiny_corpus(), {"--init"});
  refuses(warm(path("none.gguf")), {"none.gguf", "no such file"});
  refuses(warm(write("text.gguf", "hello, this is text and not a model")), {"text.gguf", "GGUF"});
  refuses(warm(TOY_GOLDEN), {"no tokenizer"});
  const std::string vocab = path("vocab.gguf");
  ASSERT_EQ(toy("tokenizer train --corpus " + tiny_corpus() + " --tokenizer bytes --out " + vocab).code, 0);
  refuses(warm(vocab), {"vocab.gguf"});  // a tokenizer without weights
  refuses(warm(first, "second", 1000), {"tokens is 1000", "--context 1000"});
  refuses(warm(first) + "--context 8", {"context is 8", "16"});
  refuses(warm(first) + "--optimizer 'adamw(beta2=2)'", {"beta2 is 2"});
  refuses(warm(first) + "--size tiny", {"--size", "toy train from-scratch"});  // the file decides
}

}  // namespace

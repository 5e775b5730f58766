// --config: options from a JSON file.
#include "cli/cli_fixture.h"

namespace {

const char* const kConfig = R"({"size": "tiny", "tokenizer": "bytes", "batch": 2, "tokens": 16, "lr": 1e-3,
    "steps": 3, "seed": 18446744073709551615, "final-lr": 0.5, "name": "-dashed", "json": false})";

// The same bytes as with the options on the command line.
TEST_F(Cli, ConfigIsTheOptionsItNames) {
  const std::string rest = "train from-scratch --corpus " + tiny_corpus();
  const Result by_words = toy(rest + kSmall + "--steps 3 --seed 18446744073709551615 --final-lr 0.5 --name=-dashed" +
                              " --out " + path("words"));
  ASSERT_EQ(by_words.code, 0) << by_words.err;
  const std::string config = write("c.json", kConfig);
  for (const std::string& option : {" --config " + config, " --config=" + config}) {
    const Result by_file = toy(rest + option + " --overwrite --out " + path("file"));
    ASSERT_EQ(by_file.code, 0) << by_file.err;
    EXPECT_EQ(slurp(path("file/model.gguf")), slurp(path("words/model.gguf")));
    EXPECT_EQ(by_file.out.substr(0, by_file.out.rfind("step 3")), by_words.out.substr(0, by_words.out.rfind("step 3")));
  }
}

TEST_F(Cli, TheCommandLineGoesBeforeTheConfig) {
  const std::string config = write("c.json", kConfig),
                    corpus = " --corpus " + tiny_corpus() + " --overwrite --out " + path("run");
  for (const char* words : {" --steps 1", " --steps=1"}) {
    const Result r = toy("train from-scratch" + std::string(words) + " --config " + config + corpus);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 2) << r.out;
  }
}

TEST_F(Cli, ConfigGivesRequiredOptionsAndFlags) {
  const std::string common = R"({"corpus": ")" + tiny_corpus() + R"(", "steps": 1, "batch": 2, "tokens": 16,
      "json": true, "name": "", "out": ")" +
                             path("run") + R"(", )";
  const Result r = toy("train from-scratch --config " + write("c.json", common + R"("size": "tiny"})"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(r.out.substr(0, r.out.find('\n'))).at("kind"), "run_start");
  // Each recipe knows its own options.
  fs::rename(path("run/model.gguf"), path("first.gguf"));
  const Result warm =
      toy("train warm-start --config " + write("w.json", common + R"("init": ")" + path("first.gguf") + "\"}"));
  EXPECT_EQ(warm.code, 0) << warm.err;
  EXPECT_TRUE(fs::exists(path("run/model.gguf")));
  refuses("train warm-start --config " + write("w.json", common + R"("tokenizer": "bytes"})"),
          {"unknown key 'tokenizer'"});
}

// What a run wrote of its options makes the same run.
TEST_F(Cli, TheConfigOfARunIsAConfig) {
  const std::string corpus = tiny_corpus();
  const std::string first = "train from-scratch --corpus " + corpus + " --val " +
                            write("val.txt", "the cat sat and was glad.\n") + kSmall +
                            "--steps 3 --name 1e3 --tap x_final --tap logits --optimizer 'sgd(momentum=0.8)' --out ";
  const Result by_words = toy(first + path("words"));
  ASSERT_EQ(by_words.code, 0) << by_words.err;
  const Result by_file = toy("train from-scratch --config " + path("words/config.json") + " --out " + path("file"));
  ASSERT_EQ(by_file.code, 0) << by_file.err;
  EXPECT_EQ(slurp(path("file/model.gguf")), slurp(path("words/model.gguf")));
  auto written = nlohmann::json::parse(slurp(path("words/config.json")));
  EXPECT_EQ(written.at("optimizer"), "sgd(momentum=0.8)");
  EXPECT_TRUE(written.at("val-fraction").is_null());  // --val took its place
  written["out"] = path("file");
  EXPECT_EQ(nlohmann::json::parse(slurp(path("file/config.json"))), written);
}

TEST_F(Cli, BadConfigs) {
  const std::string train = "train from-scratch --corpus " + tiny_corpus() + " --out " + path("run") + " --config ";
  const auto with = [&](const std::string& text) { return train + write("c.json", text); };
  refuses(with(R"({"stepz": 3})"), {"c.json: unknown key 'stepz'", "did you mean 'steps'"});
  refuses(with(R"({"zzzzzzzz": 3})"), {"c.json: unknown key 'zzzzzzzz'", "--help"});
  refuses(with(R"({"--steps": 3})"), {"c.json: unknown key '--steps'", "did you mean 'steps'"});
  refuses(with(R"({"config": "other.json"})"), {"c.json: 'config' belongs on the command line"});
  refuses(with(R"({"help": true})"), {"c.json: 'help' belongs on the command line"});
  refuses(with(R"({"init": "a.gguf"})"), {"unknown key 'init'"});  // of another recipe
  refuses(with(R"({"steps": [3, 4]})"), {"c.json: 'steps' is a list; give one value"});
  refuses(with(R"({"steps": true})"), {"c.json: 'steps' is 'true'; use a whole number"});
  refuses(with(R"({"steps": {}})"), {"c.json: 'steps' is {}"});
  refuses(with(R"({"tap": ["x_final", 3, null]})"), {"c.json: 'tap' is null", "a number, a string"});
  refuses(with(R"({"steps": "many"})"), {"steps", "many"});
  refuses(with(R"({"steps": 1.5})"), {"steps", "1.5"});
  refuses(with(R"({"steps": "many"})") + " --steps 1", {"steps", "many"});  // wrong although it does not count
  refuses(with(R"({"steps": 1, "lr": 1, "steps": 2})"), {"c.json: 'steps'", "twice"});
  refuses(with(R"({"seed": -1})"), {"'seed' is -1", "0 to 18446744073709551615"});
  refuses(with(R"({"json": 1})"), {"c.json: 'json' is 1", "true or false"});
  refuses(with(R"({"name": "x\u0000y"})"), {"c.json: 'name' holds a NUL"});
  refuses(with("[1]"), {"c.json: not a JSON object"});
  refuses(with("{"), {"c.json: not JSON", "column 2: the text ends too early; expected a name in double quotes"});
  refuses(with(R"({"lr": 1e999})"), {"c.json: not JSON", "number overflow parsing '1e999'"});
  refuses(with(R"({"steps": )" + std::string(200000, '[')), {"c.json", "more than 64 levels"});
  refuses(train + path("none.json"), {"none.json", "no such file"});
  refuses(train + path(), {"folder"});
  refuses(train, {"--config"});
  refuses("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1 --config " + write("c.json", "{}"),
          {"unknown option '--config'"});
  EXPECT_FALSE(fs::exists(path("run/model.gguf")));
}

}  // namespace

// Classifiers of texts: what `toy infer` and `toy eval classify` print, and what is refused. (Which scores:
// tests/train/text_classes_test.cpp.)
#include "cli/cli_fixture.h"

namespace toy_cli_test::text_classes_test {
namespace {

using nlohmann::json;

class CliClasses : public Cli {
 protected:
  const std::string model_ = path("class.gguf");

  void SetUp() override {
    const Result r = toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_class_tiny " + model_);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err.find("warning"), std::string::npos) << r.err;
  }
};

TEST_F(CliClasses, InferPrintsTheLikeliest) {
  const Result plain = toy("infer " + model_ + " --prompt 'the badger'");
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(std::ranges::count(plain.out, '\n'), 3);
  const Result as_json = toy("infer " + model_ + " 'the badger' --json --top 2");
  ASSERT_EQ(as_json.code, 0) << as_json.err;
  const json j = json::parse(as_json.out);
  EXPECT_EQ(j.at("classes").size(), 2u);
  EXPECT_EQ(j.at("class"), j.at("classes")[0].at("class"));
  EXPECT_GE(j.at("classes")[0].at("probability"), j.at("classes")[1].at("probability"));
  EXPECT_EQ(j.at("tokens"), 4);
  EXPECT_NE(plain.out.find("%  " + j.at("class").get<std::string>() + "\n"), std::string::npos) << plain.out;
  const std::string lines = write("lines", "the badger\n{\"prompt\": \"otters\"}\n");
  const Result several = toy("infer " + model_ + " --prompts " + lines + " --json --top 2");
  ASSERT_EQ(several.code, 0) << several.err;
  json first = json::parse(several.out.substr(0, several.out.find('\n')));
  EXPECT_EQ(first.at("index"), 0);
  first.erase("index");
  EXPECT_EQ(first, j);
}

TEST_F(CliClasses, EvalCountsWhatIsRight) {
  std::string rows;
  const char* kTexts[] = {"the badger", "otters", "under the river", "run"};
  for (const char* text : kTexts) {  // labelled as the model has it, the last one wrongly
    const json j = json::parse(toy("infer " + model_ + " '" + text + "' --json").out);
    const bool wrong = text == kTexts[3];
    rows += json{{"text", text}, {"label", j.at("classes")[wrong ? 2 : 0].at("class")}}.dump() + "\n";
  }
  const std::string file = write("rows.jsonl", rows);
  const Result r = toy("eval classify " + model_ + " " + file + " --json");
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  EXPECT_EQ(j.at("accuracy"), 0.75);
  EXPECT_NEAR(j.at("accuracy_error").get<double>(), std::sqrt(0.75 * 0.25 / 4), 1e-12);
  EXPECT_EQ(j.at("worst")[0].at("text"), "run");
  int64_t all = 0;
  for (const json& row : j.at("confusion"))
    for (const json& n : row) all += n.get<int64_t>();
  EXPECT_EQ(all, 4);
  const Result plain = toy("eval classify " + model_ + " " + file);
  EXPECT_NE(plain.out.find("accuracy 75"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("run is "), std::string::npos) << plain.out;
}

TEST_F(CliClasses, TrainInferAndEvaluateAnAdapter) {
  const std::string base = path("bert.gguf"), out = path("out");
  ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_tiny " + base).code, 0);
  const std::string data = write("rows.csv", "text,label\nthe badger,a\nriver,b\n");
  const Result trained = toy("train classify --model " + base + " --data " + data +
                             " --adapter --rank 2 --steps 2 --batch 2 --out " + out);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("toy infer " + base + " --lora " + out + " --prompt TEXT"), std::string::npos)
      << trained.err;
  EXPECT_EQ(toy("infer " + base + " --lora " + out + " --prompt river").code, 0);
  EXPECT_EQ(toy("eval classify " + base + " " + data + " --lora " + out).code, 0);
}

TEST_F(CliClasses, Refuses) {
  refuses("infer " + model_ + " --prompt ' '", {"it is empty"});
  refuses("eval classify " + model_ + " " + write("named.jsonl", R"({"review": "a", "sentiment": "good"})"),
          {"there is no 'text'", "--map text=review,label=sentiment"});
  refuses("eval classify " + model_ + " " + write("bare.csv", "I liked it,1\nI hated it,0\n"),
          {"bare.csv:2: there is no 'text' and no 'label': the first line of a table names its columns, and here it is "
           "I liked it,1;"});
  refuses("infer " + model_ + " --prompt a --temperature 1", {"--temperature", "classifies texts"});
  refuses("embed " + model_ + " a", {"it classifies texts", "toy infer"});
  refuses("rerank " + model_ + " q --document a", {"does not rank"});
  refuses("serve " + model_ + " --port 0", {"it classifies texts"});
  refuses("chat " + model_ + " a", {"it classifies texts", "toy infer"});
  const std::string rows = write("rows.jsonl", R"({"text": "a", "label": "worse"})");
  refuses("eval classify " + model_ + " " + rows, {"the model has no label 'worse'; it has bad, so so, good"});
  refuses("eval classify " + std::string(TOY_GOLDEN) + " " + rows, {"does not classify texts"});
  refuses("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1 --top 2", {"--top is for classes"});
  const Result card = toy("describe " + model_);
  EXPECT_EQ(card.code, 0) << card.err;
  EXPECT_NE(card.out.find("a classifier of texts with 3 classes"), std::string::npos) << card.out;
}

}  // namespace
}  // namespace toy_cli_test::text_classes_test

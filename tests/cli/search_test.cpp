// toy search: passages, an index, what is nearest, and what is refused. toy eval sts and retrieval on a model.
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliSearch : public Cli {
 protected:
  const std::string model_ = path("bert.gguf"), notes_ = path("notes"), index_ = path("notes.index");

  void SetUp() override {
    ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_tiny " + model_).code, 0);
    write("notes/a.txt", "the badger runs\nunder the river\n\notters\n\n---\n");
    write("notes/sub/b.md", "# old\n\na river 1 2 3 a river 1 2 3 a river 1 2 3\n\nx");
  }
  Result build(const std::string& more = "") const {
    return toy("search build " + model_ + " " + notes_ + " --passage-tokens 6 --out " + index_ + more);
  }
  std::vector<json> query(const std::string& arguments) const {
    const Result r = toy("search query " + index_ + " " + arguments + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    std::vector<json> rows;
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }
};

TEST_F(CliSearch, EveryPassageIsFoundByItself) {
  for (int i = 0; i < 2; ++i) {  // an index may be replaced
    const Result r = build();
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out, index_ + "\n");
  }
  const std::vector<json> all = query("badger -k 100");
  ASSERT_GE(all.size(), 5u);
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i - 1].at("score"), all[i].at("score"));
  bool has_second_line = false;
  for (const json& passage : all) {
    EXPECT_NE(passage.at("text"), "---");  // says nothing
    has_second_line |= passage.at("line") == 2 && passage.at("text") == "under the river";
    const json first = query("'" + passage.at("text").get<std::string>() + "' -k 1").at(0);
    EXPECT_EQ(first.at("text"), passage.at("text"));
    EXPECT_NEAR(first.at("score").get<double>(), 1, 24 * 0x1p-23);
  }
  EXPECT_TRUE(has_second_line);  // the paragraph is longer than 6 tokens, so it is cut at its lines
}

TEST_F(CliSearch, Refuses) {
  ASSERT_EQ(build().code, 0);
  refuses("search query " + model_ + " x", {"no index"});
  refuses("describe " + index_, {"it is an index of passages, no model; toy search query"});
  const std::string text = write("precious.txt", "words");
  refuses("search build " + model_ + " " + notes_ + " --out " + text, {"did not write"});
  refuses("search build " + model_ + " " + path("nowhere") + " --out " + index_, {"nowhere"});
  refuses("search build " + std::string(TOY_GOLDEN) + " " + notes_ + " --out " + path("i"), {"has no tokenizer"});
  refuses("search query " + index_ + " x --model " + std::string(TOY_GOLDEN), {"is not the model"});
  fs::rename(model_, path("moved.gguf"));
  refuses("search query " + index_ + " x", {"which is gone", "--model"});
  EXPECT_EQ(query("x -k 1 --model " + path("moved.gguf")).size(), 1u);
}

TEST_F(CliSearch, EvalOfEmbeddings) {
  const std::string rated = write("sts.jsonl",
                                  R"({"sentence1": "the badger", "sentence2": "the badger", "score": 5}
{"sentence1": "the badger", "sentence2": "old 1 2 3", "score": 1}
)");
  const Result sts = toy("eval sts " + model_ + " " + rated + " --json");
  ASSERT_EQ(sts.code, 0) << sts.err;
  EXPECT_EQ(json::parse(sts.out).at("spearman"), 1);  // a text is nearest to itself
  const std::string pairs = write("pairs.csv", "query,document,note\nthe badger,the badger,a\nx u,x u,b\n");
  const Result found = toy("eval retrieval " + model_ + " " + pairs + " --json");
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.err.find("note"), std::string::npos);  // has no effect
  const json r = json::parse(found.out);
  EXPECT_EQ(r.at("anchors"), 2);
  EXPECT_EQ(r.at("texts"), 2);
  EXPECT_EQ(r.at("mrr_10"), 1);
  refuses("eval sts " + model_ + " " + pairs, {"pairs.csv:2", "sentence1"});
  refuses("eval retrieval " + model_ + " " + rated, {"sts.jsonl:1", "anchor"});
}

}  // namespace

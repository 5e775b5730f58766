// toy rerank: what it prints, and what is refused. (Which scores: tests/hf/rerank_test.cpp.)
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliRerank : public Cli {
 protected:
  const std::string model_ = path("rank.gguf"), texts_ = path("texts");

  void SetUp() override {
    const Result r = toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_rank_tiny " + model_);
    ASSERT_EQ(r.code, 0) << r.err;
    std::ofstream(texts_) << "the badger\n{\"text\": \"otters swimming!\"}\nunder the river\n";
  }
  std::vector<json> rows(const std::string& arguments) const {
    const Result r = toy("rerank " + model_ + " " + arguments + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    std::vector<json> rows;
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }
};

TEST_F(CliRerank, TheBestFirst) {
  const std::vector<json> all = rows("'the otter?' --file " + texts_);
  ASSERT_EQ(all.size(), 3u);
  const std::vector<std::string> texts{"the badger", "otters swimming!", "under the river"};
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) EXPECT_GE(all[i - 1].at("score"), all[i].at("score"));
    EXPECT_EQ(all[i].at("text"), texts[all[i].at("index").get<size_t>()]);
    EXPECT_GT(all[i].at("score"), 0);
    EXPECT_LT(all[i].at("score"), 1);
  }
  EXPECT_EQ(
      rows("'the otter?' --top 1 --document 'the badger' --document 'otters swimming!' --document 'under the river'"),
      std::vector<json>{all.front()});
  const Result plain = toy("rerank " + model_ + " 'the otter?' --raw --top 1 --file " + texts_);
  const std::string line =
      std::to_string(all[0].at("index").get<int>() + 1) + "  " + all[0].at("text").get<std::string>();
  EXPECT_NE(plain.out.find(line), std::string::npos) << plain.out;
  EXPECT_NEAR(std::stod(plain.out), all[0].at("logit").get<double>(), 5e-5);
  std::string words;
  for (int i = 0; i < 90; ++i) words += "the ";
  const Result cut = toy("rerank " + model_ + " otter --document '" + words + "'");
  EXPECT_EQ(cut.code, 0);
  EXPECT_NE(cut.err.find("1 of 1 documents was cut"), std::string::npos) << cut.err;
}

TEST_F(CliRerank, ADecoderThatAnswers) {
  const std::string folder = std::string(TOY_SOURCE_DIR) + "/tests/golden/qwen3_rank_tiny ", ranks = path("qwen.gguf");
  ASSERT_EQ(toy("convert " + folder + ranks + " --reranker").code, 0);
  const Result r = toy("rerank " + ranks + " otter --document a --document b");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::ranges::count(r.out, '\n'), 2);
  const std::string plain = path("plain.gguf");
  ASSERT_EQ(toy("convert " + folder + plain).code, 0);
  refuses("rerank " + plain + " otter --document a", {"does not rank", "toy convert --reranker"});
  refuses("convert " + ranks + " " + path("x.gguf") + " --type f16 --reranker",
          {"--reranker is for Hugging Face folders"});
}

TEST_F(CliRerank, Refuses) {
  refuses("rerank " + model_ + " q", {"there are no documents", "--file"});
  refuses("rerank " + model_ + " ' ' --document a", {"query", "empty"});
  refuses("rerank " + model_ + " q --document a --file " + texts_, {"--file"});
  refuses("rerank " + std::string(TOY_GOLDEN) + " q --document a", {"no tokenizer"});
  refuses("embed " + model_ + " a", {"it ranks texts", "toy rerank"});
  refuses("serve " + model_ + " --port 0 --ctx 100", {"--ctx", "ranks texts"});
  std::ofstream(texts_) << "{\"ids\": [1]}\n";
  refuses("rerank " + model_ + " q --file " + texts_, {"texts:1", "token ids are no document"});
  std::string words;
  for (int i = 0; i < 90; ++i) words += "the ";
  refuses("rerank " + model_ + " '" + words + "' --document a", {"the query has 92 tokens"});
  const std::string pairs =
      write("pairs.jsonl", "{\"anchor\": \"a\", \"positive\": \"b\"}\n{\"anchor\": \"c\", \"positive\": \"x\"}\n");
  refuses("train contrastive --steps 1 --batch 2 --val-fraction 0 --model " + model_ + " --data " + pairs + " --out " +
              path("out"),
          {"it ranks texts, and has no vectors to train"});
}

}  // namespace

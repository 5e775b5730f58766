// /v1/rerank. tests/hf/rerank_test.cpp compares the numbers with transformers'.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "loopback.h"
#include "serve/encoder_server.h"

namespace toy::serve::rerank_test {
namespace {

using nlohmann::ordered_json;

// A server of a random reranker on bytes.
class RankServer {
 public:
  RankServer()
      : device_(make_cpu_device(2)),
        model_(random_model(spec(), *device_, 3, 2.0)),
        http_(std::make_unique<HttpServer>("127.0.0.1", 0, HttpLimits())) {
    model_.tokenizer = make_byte_tokenizer();
    options_.name = "ranker";
    ranker_ = std::make_unique<Ranker>(*device_, model_);
    thread_ = std::thread([this] { serve_ranker(*http_, *ranker_, model_, options_); });
  }
  ~RankServer() {
    http_->stop();
    thread_.join();
  }
  static ModelSpec spec() {
    return spec_from_json(nlohmann::json{{"architecture", "qwen3"},
                                         {"name", "ranker"},
                                         {"d_model", 40},
                                         {"n_layers", 2},
                                         {"n_heads", 4},
                                         {"n_kv", 2},
                                         {"d_head", 10},
                                         {"d_ff", 52},
                                         {"vocab", 256},
                                         {"context", 512},
                                         {"labels", 2}},
                          "test");
  }
  Answer ask(const std::string& bytes) const {
    Client client(http_->port());
    client.send(bytes);
    return Loopback::parse(client.receive());
  }
  Answer post(const std::string& target, const std::string& body) const { return ask(serve::post(target, body)); }
  std::vector<Ranked> rank(const std::string& query, const std::vector<std::string>& documents) {
    return rerank(*device_, model_, query, documents);
  }

 private:
  std::unique_ptr<Device> device_;
  Model model_;
  ServerOptions options_;
  std::unique_ptr<Ranker> ranker_;
  std::unique_ptr<HttpServer> http_;
  std::thread thread_;
};

const std::vector<std::string> kDocuments{"one", "two", "three", "four"};

TEST(Rerank, JinaAndCohere) {
  RankServer server;
  const std::vector<Ranked> want = server.rank("which", kDocuments);
  int64_t tokens = 0;
  for (const Ranked& r : want) tokens += r.tokens;
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"}) {
    const Answer reply = server.post(
        path, R"({"model": "m", "query": "which", "documents": ["one", {"text": "two", "id": 7}, "three", "four"]})");
    ASSERT_EQ(reply.status, 200) << path << reply.body;
    const ordered_json j = reply.json();
    EXPECT_EQ(j["object"], "list");
    EXPECT_EQ(j["model"], "m");
    EXPECT_EQ(j["usage"], (ordered_json{{"prompt_tokens", tokens}, {"total_tokens", tokens}}));
    ASSERT_EQ(j["results"].size(), 4u);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(j["results"][i]["index"], want[i].index);
      EXPECT_EQ(j["results"][i]["relevance_score"].get<double>(), want[i].score);
      EXPECT_FALSE(j["results"][i].contains("document"));
    }
  }
  const ordered_json best = server
                                .post("/v1/rerank", R"({"query": "which", "documents": ["one", "two", "three", "four"],
                                      "top_n": 2, "return_documents": true, "raw_scores": true})")
                                .json();
  EXPECT_EQ(best["model"], "ranker");
  ASSERT_EQ(best["results"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(best["results"][i]["document"]["text"], kDocuments[want[i].index]);
    EXPECT_EQ(best["results"][i]["relevance_score"].get<double>(), want[i].logit);
  }
}

// As Text Embeddings Inference has it.
TEST(Rerank, Texts) {
  RankServer server;
  const std::vector<Ranked> want = server.rank("which", kDocuments);
  const ordered_json j =
      server.post("/rerank", R"({"query": "which", "texts": ["one", "two", "three", "four"], "return_text": true})")
          .json();
  ASSERT_EQ(j.size(), 4u);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(j[i]["index"], want[i].index);
    EXPECT_EQ(j[i]["score"].get<double>(), want[i].score);
    EXPECT_EQ(j[i]["text"], kDocuments[want[i].index]);
  }
}

// What clients send by default, and has no effect, is noted.
TEST(Rerank, FieldsWithoutEffect) {
  RankServer server;
  const Answer r = server.post("/rerank", R"({"query": "which", "texts": ["one", "two"], "truncate": true})");
  EXPECT_EQ(r.status, 200) << r.body;
  EXPECT_NE(r.header.find("X-Toy-Ignored: truncate"), std::string::npos) << r.header;
  EXPECT_EQ(server.post("/v1/rerank", R"({"query": "which", "documents": ["one"], "user": "u"})").status, 200);
}

TEST(Rerank, BadRequests) {
  RankServer server;
  const auto refuses = [&](const std::string& fields, const std::string& param, const std::string& words) {
    const Answer r = server.post("/v1/rerank", "{" + fields + "}");
    EXPECT_EQ(r.status, 400) << fields.substr(0, 100) << r.body;
    EXPECT_NE(r.body.find(words), std::string::npos) << r.body;
    EXPECT_EQ(r.json()["error"]["param"], param) << r.body;
  };
  refuses(R"("documents": ["a"])", "query", "missing");
  refuses(R"("query": "", "documents": ["a"])", "query", "empty");
  refuses(R"("query": "q")", "documents", "missing");
  refuses(R"("query": "q", "documents": [])", "documents", "at least one");
  refuses(R"("query": "q", "documents": "a")", "documents", "no list");
  refuses(R"("query": "q", "documents": ["a", 5])", "documents[1]", "is no text");
  refuses(R"("query": "q", "documents": [{"words": "a"}])", "documents[0].text", "missing");
  refuses(R"("query": "q", "documents": ["a"], "top_n": 0)", "top_n", "1");
  refuses(R"("query": "q", "documents": ["a"], "raw_scores": 1)", "raw_scores", "true or false");
  refuses(R"("query": ")" + std::string(600, 'q') + R"(", "documents": ["a"])", "query", "the query has");
  std::string many = R"("query": "q", "documents": ["a")";
  for (int i = 0; i < 2048; ++i) many += R"(, "a")";
  refuses(many + "]", "documents", "at most 2048");
  const Answer other = server.post("/v1/embeddings", R"({"input": "a"})");
  EXPECT_EQ(other.status, 404);
  EXPECT_NE(other.body.find("'ranker' ranks documents"), std::string::npos) << other.body;
  EXPECT_EQ(server.post("/v1/rerank", "[]").status, 400);
  EXPECT_EQ(server.ask("GET /v1/rerank HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status, 405);
  EXPECT_EQ(server.ask("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status, 200);
  // A long document is cut.
  EXPECT_EQ(server.post("/v1/rerank", R"({"query": "q", "documents": [")" + std::string(600, 'd') + "\"]}").status,
            200);
}

}  // namespace
}  // namespace toy::serve::rerank_test

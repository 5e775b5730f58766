// /v1/embeddings. tests/models/embedding_golden_test.cpp compares the numbers with transformers'.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "loopback.h"
#include "serve/api/embeddings.h"

namespace toy::serve::embeddings_test {
namespace {

using nlohmann::ordered_json;

std::vector<float> floats(const ordered_json& j) { return j.get<std::vector<float>>(); }

TEST(Embeddings, TextsIdsAndEncodings) {
  const Loopback server;
  const auto ask = [&](const std::string& fields) { return server.post("/v1/embeddings", "{" + fields + "}"); };
  const Answer reply = ask(R"("input": "abc", "model": "tiny")");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const ordered_json j = reply.json();
  EXPECT_EQ(j["object"], "list");
  EXPECT_EQ(j["model"], "tiny");
  EXPECT_EQ(j["usage"], (ordered_json{{"prompt_tokens", 3}, {"total_tokens", 3}}));
  EXPECT_EQ(j["data"][0]["object"], "embedding");
  const std::vector<float> abc = floats(j["data"][0]["embedding"]);
  ASSERT_EQ(abc.size(), 40u);
  double length = 0;
  for (const float x : abc) length += double(x) * double(x);
  EXPECT_NEAR(length, 1, 0x1p-23);

  const ordered_json many = ask(R"("input": ["xy", "abc"], "dimensions": 40, "pooling": "mean")").json();
  EXPECT_EQ(many["data"][1]["index"], 1);
  EXPECT_EQ(floats(many["data"][1]["embedding"]), abc);
  EXPECT_NE(floats(many["data"][0]["embedding"]), abc);
  EXPECT_EQ(many["usage"]["prompt_tokens"], 5);
  EXPECT_EQ(floats(ask(R"("input": [97, 98, 99])").json()["data"][0]["embedding"]), abc);
  EXPECT_EQ(floats(ask(R"("input": [[1], [97, 98, 99]])").json()["data"][1]["embedding"]), abc);

  // 160 bytes are 216 characters, of which the last is '='; the first is of the six high bits of the first byte.
  const std::string base64 =
      ask(R"("input": "abc", "encoding_format": "base64")").json()["data"][0]["embedding"].get<std::string>();
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (size_t i = 0; i + 3 < base64.size(); i += 4) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 4; ++k) bits = bits << 6 | uint32_t(base64[i + k] == '=' ? 0 : kDigits.find(base64[i + k]));
    for (const int shift : {16, 8, 0}) bytes += char(bits >> shift & 255);
  }
  ASSERT_EQ(base64.size(), 216u);
  for (size_t i = 0; i < abc.size(); ++i) {
    uint32_t word = 0;
    for (size_t k = 4; k-- > 0;) word = word << 8 | uint8_t(bytes[4 * i + k]);
    EXPECT_EQ(std::bit_cast<float>(word), abc[i]);
  }
}

// Where the model's file states none, and the request neither.
TEST(Embeddings, SayWhatPoolingWasAssumed) {
  const Loopback server;
  const auto ask = [&](const std::string& fields) { return server.post("/v1/embeddings", "{" + fields + "}").json(); };
  EXPECT_NE(
      ask(R"("input": "abc")").value("warning", "").find("states no pooling, so these are the means of all tokens"),
      std::string::npos);
  EXPECT_FALSE(ask(R"("input": "abc", "pooling": "mean")").contains("warning"));
  EXPECT_EQ(pooling_warning({}, "last"), "");
}

// The first token's state depends on nothing after it, the last one's on everything.
TEST(Embeddings, Pooling) {
  const Loopback server;
  const auto of = [&](const std::string& text, const std::string& pooling) {
    return floats(server.post("/v1/embeddings", fmt::format(R"({{"input": "{}", "pooling": "{}"}})", text, pooling))
                      .json()["data"][0]["embedding"]);
  };
  EXPECT_EQ(of("abc", "cls"), of("axy", "cls"));
  EXPECT_EQ(of("abc", "cls"), of("a", "mean"));
  EXPECT_EQ(of("a", "last"), of("a", "mean"));
  EXPECT_NE(of("abc", "last"), of("xbc", "last"));
  EXPECT_NE(of("abc", "last"), of("abc", "mean"));
}

// Alone, and among texts that are being written and embedded, of which some share its beginning.
TEST(Embeddings, TheSameBytesAmongOthers) {
  const Loopback server({.sequences = 3, .max_rows = 32});
  const std::string text(200, 'q'), body = R"({"input": ")" + text + R"("})";
  const std::string alone = server.post("/v1/embeddings", body).body;
  std::vector<std::string> replies(12);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < replies.size(); ++i)
    clients.emplace_back([&, i] {
      replies[i] = i % 3 == 0
                       ? server.post("/v1/completions", R"({"prompt": ")" + text + R"(a", "max_tokens": 50})").body
                       : server.post("/v1/embeddings", body).body;
    });
  for (std::thread& c : clients) c.join();
  for (size_t i = 0; i < replies.size(); ++i)
    if (i % 3 != 0) {
      EXPECT_EQ(replies[i], alone) << i;
    }
}

TEST(Embeddings, BadRequests) {
  ServerOptions options;
  options.most_waiting = 8;
  options.strict = true;
  const Loopback server({.sequences = 2}, options);
  const auto refuses = [&](const std::string& fields, const std::string& param, const std::string& words) {
    const Answer r = server.post("/v1/embeddings", "{" + fields + "}");
    EXPECT_EQ(r.status, 400) << fields.substr(0, 100) << r.body;
    EXPECT_NE(r.body.find(words), std::string::npos) << r.body;
    EXPECT_EQ(r.json()["error"]["param"], param.empty() ? ordered_json() : ordered_json(param)) << r.body;
  };
  refuses("", "input", "missing");
  refuses(R"("texts": ["a"])", "input", "the field 'texts' is unknown; did you mean 'input'?");
  refuses(R"("input": "")", "input", "empty");
  refuses(R"("input": [])", "input", "array");
  refuses(R"("input": ["a", ""])", "input", "empty");
  refuses(R"("input": [256])", "input", "vocabulary");
  refuses(R"("input": [-1])", "input", "token id");
  refuses(R"("input": {"text": "a"})", "input", "array");
  refuses(R"("input": "a", "pooling": "max")", "pooling", "mean, last or cls");
  refuses(R"("input": "a", "encoding_format": "int8")", "encoding_format", "base64");
  refuses(R"("input": "a", "dimensions": 39)", "dimensions", "40");
  refuses(R"("input": "a", "user": "me")", "user", "user");
  refuses(R"("input": ")" + std::string(513, 'a') + '"', "input", "513");
  std::string many = R"("input": ["a")";
  for (int i = 0; i < 8; ++i) many += R"(, "a")";
  refuses(many + "]", "", "the queue holds 8");
  for (int i = 0; i < 2048; ++i) many += R"(, "a")";
  refuses(many + "]", "input", "2048");
  EXPECT_EQ(server.post("/v1/embeddings", R"({"input": "a", "model": "other"})").status, 404);
  EXPECT_EQ(server.get("/v1/embeddings").status, 405);
  EXPECT_EQ(server.post("/v1/embeddings", R"({"input": ")" + std::string(512, 'a') + "\"}").status, 200);
}

}  // namespace
}  // namespace toy::serve::embeddings_test

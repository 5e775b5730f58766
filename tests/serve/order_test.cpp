// Requests with a priority or a time limit, and those that go while others wait for their pages.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

#include "loopback.h"
#include "serve/api/api.h"
#include "toy/decode/decoder.h"

namespace toy::serve::order_test {
namespace {

using nlohmann::ordered_json;

TEST(ServeOrder, FieldsOfARequest) {
  const CompletionRequest r = parse_completion(R"({"prompt": "a", "priority": -3, "timeout": 0.25})", false);
  EXPECT_EQ(r.priority, -3);
  EXPECT_EQ(r.timeout, 0.25);
  const CompletionRequest none = parse_completion(R"({"messages": [{"role": "user", "content": "a"}]})", true);
  EXPECT_EQ(none.priority, 0);
  EXPECT_FALSE(none.timeout);
  for (const std::string bad : {R"("priority": 1.5)", R"("priority": "high")", R"("priority": 3000000000)",
                                R"("timeout": 0)", R"("timeout": -1)", R"("timeout": "1s")", R"("timeout": 1e300)"}) {
    const std::string name = bad.substr(1, bad.find('"', 1) - 1);
    try {
      parse_completion(R"({"prompt": "a", )" + bad + "}", false);
      ADD_FAILURE() << bad;
    } catch (const FieldError& e) {
      EXPECT_EQ(e.field, name) << bad;
    }
  }
}

// Nothing was generated: an error, which the official clients must not answer with the same request again.
TEST(ServeOrder, ATimeoutBeforeTheFirstToken) {
  const Loopback server;
  for (const std::string more : {"", R"(, "stream": true)", R"(, "n": 3)"}) {
    const Answer r = server.post("/v1/completions", R"({"prompt": "a", "timeout": 1e-9)" + more + "}");
    EXPECT_EQ(r.status, 504) << r.body;
    EXPECT_NE(r.header.find("X-Should-Retry: false"), std::string::npos) << r.header;
    EXPECT_EQ(r.json()["error"]["code"], "timeout");
    EXPECT_EQ(r.json()["error"]["param"], "timeout");
  }
  EXPECT_EQ(server
                .post("/v1/chat/completions",
                      R"({"messages": [{"role": "user", "content": "a"}], "timeout": 1e-9, "max_tokens": 3})")
                .status,
            504);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "timeout": 1000, "max_tokens": 3})").status, 200);
  EXPECT_EQ(server.metric("requests_running"), 0);
}

// What was generated is the answer, cut off as by max_tokens.
TEST(ServeOrder, ATimeoutAmongTokens) {
  const Loopback server;
  const auto ask = [&](const std::string& more) {
    Answer r;
    for (double timeout = 0.3; timeout < 60; timeout *= 2) {  // a busy machine needs longer for the first token
      r = server.post("/v1/completions", fmt::format(R"({{"prompt": "a", "timeout": {}, "n": 128, "max_tokens": 500, )"
                                                     R"("ignore_eos": true, "seed": 1{}}})",
                                                     timeout, more));
      if (r.status != 504) break;
    }
    EXPECT_EQ(r.status, 200) << r.body;
    return r;
  };
  const ordered_json r = ask("").json();
  ASSERT_EQ(r["choices"].size(), 128u);
  EXPECT_GT(r["usage"]["completion_tokens"], 0);
  EXPECT_LT(r["usage"]["completion_tokens"], 128 * 500);
  for (const auto& choice : r["choices"]) EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(r["choices"].back()["text"], "");  // it has never had a sequence
  EXPECT_NE(ask(R"(, "stream": true)").body.find("[DONE]"), std::string::npos);
}

// Many texts are asked for, one after the other; a request of a lower value is the next.
TEST(ServeOrder, PriorityPassesTheQueue) {
  const Loopback server({.sequences = 1});
  const auto ask = [](int priority, int n) {
    return post("/v1/completions", R"({"prompt": "a", "max_tokens": 500, "ignore_eos": true, "stream": true, )"
                                   R"("priority": )" +
                                       std::to_string(priority) + R"(, "n": )" + std::to_string(n) + "}");
  };
  Client first(server.port()), patient(server.port()), urgent(server.port());
  first.send(ask(0, 128));
  first.receive("data: ");
  patient.send(ask(1, 1));
  urgent.send(ask(-1, 1));
  urgent.receive("data: ");
  char come[4096];
  const ssize_t n = ::recv(patient.socket(), come, sizeof come, MSG_PEEK | MSG_DONTWAIT);
  EXPECT_EQ(std::string_view(come, size_t(std::max<ssize_t>(n, 0))).find("data: "), std::string_view::npos)
      << "it was earlier";
  first.hang_up();
  patient.receive("data: ");
}

// The cache is full of a client's texts, and empty for the next one when that client goes.
TEST(ServeOrder, AClientThatGoesMakesRoom) {
  const auto device = make_cpu_device(1);
  const Model model = random_model(Loopback::spec(), *device, 3, 2.0);
  const size_t page = shared_page_bytes(model.spec, decode_shape(model, {}));
  const Loopback server({.sequences = 2, .cache = 8 * page});
  const std::string prompt(300, 'a');
  Client first(server.port());
  first.send(post("/v1/completions",
                  R"({"max_tokens": 210, "ignore_eos": true, "stream": true, "n": 128, "prompt": ")" + prompt + "\"}"));
  first.receive("data: ");
  Client second(server.port());
  second.send(post("/v1/completions", R"({"max_tokens": 3, "ignore_eos": true, "prompt": "b)" + prompt + "\"}"));
  first.hang_up();
  EXPECT_EQ(Loopback::parse(second.receive()).status, 200);
  EXPECT_LT(server.metric("generated_tokens_total"), 128 * 210 / 2);
  wait_until([&] { return server.metric("requests_running") == 0 && server.metric("requests_waiting") == 0; });
}

}  // namespace
}  // namespace toy::serve::order_test

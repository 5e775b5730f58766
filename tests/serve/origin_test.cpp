// Web pages of others cannot use a server; programs and its own page can.
#include "serve/http/origin.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loopback.h"
#include "testing/errors.h"

namespace toy::serve::origin_test {
namespace {

HttpRequest request(const std::string& method, const std::string& host, const std::string& origin = "",
                    const std::string& site = "", const std::string& type = "application/json") {
  HttpRequest r{.method = method, .target = "/v1/completions"};
  r.host = host, r.origin = origin, r.fetch_site = site, r.content_type = type;
  return r;
}

int status(const HttpRequest& r, const OriginRules& rules) {
  const Admission a = admit(r, rules);
  return a.reply ? a.reply->status : 200;
}

std::string header(const HttpHeaders& headers, const std::string& name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

const OriginRules kLocal{.host = "127.0.0.1", .port = 8080};

TEST(Origin, ProgramsAskAsTheyLike) {
  for (const char* host :
       {"", "localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.5", "[::1]:8080", "localhost:9"})
    for (const char* type : {"", "application/json", "application/x-www-form-urlencoded", "text/plain"})
      EXPECT_EQ(status(request("POST", host, "", "", type), kLocal), 200) << host << " " << type;
}

// A page could give its own name our address.
TEST(Origin, OtherNamesAreRefused) {
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example:8080", "127.0.0.1.evil.example",
                           "10.0.0.1:8080", "0.0.0.0:8080", "[::2]:8080", "xlocalhost"})
    EXPECT_EQ(status(request("GET", host), kLocal), 403) << host;
  for (const char* host : {"local host", "[::1", "a:b", "localhost:", "localhost:80:80", "a/b", "\xff"})
    EXPECT_EQ(status(request("GET", host), kLocal), 400) << host;
  OriginRules named = kLocal;
  named.host = "Box.home";
  EXPECT_EQ(status(request("GET", "box.home:8080"), named), 200);
  OriginRules keyed = kLocal;
  keyed.keyless = false;  // who has the key is no page of others
  EXPECT_EQ(status(request("GET", "llm.example"), keyed), 200);
  OriginRules open = kLocal;
  open.loopback = false, open.host = "0.0.0.0";
  EXPECT_EQ(status(request("POST", "whatever.lan:8080"), open), 200);
  EXPECT_EQ(status(request("POST", "evil.example:8080", "http://evil.example:8080"), open), 403);
  EXPECT_EQ(status(request("POST", "192.168.1.5:8080", "http://192.168.1.5:8080"), open), 200);
}

TEST(Origin, OtherPagesAreRefused) {
  const std::string host = "127.0.0.1:8080";
  EXPECT_EQ(status(request("POST", host, "http://127.0.0.1:8080", "same-origin"), kLocal), 200);
  for (const char* origin : {"http://evil.example", "http://localhost:3000", "http://localhost:8080", "null",
                             "https://127.0.0.1:8080", "http://127.0.0.1", "http://127.0.0.1:80800", "x"})
    for (const char* method : {"POST", "GET", "DELETE"})
      EXPECT_EQ(status(request(method, host, origin), kLocal), 403) << origin;
  EXPECT_EQ(status(request("POST", "localhost:9", "http://localhost:9"), kLocal), 403);  // another port
  for (const char* site : {"cross-site", "same-site", "anything"}) {
    EXPECT_EQ(status(request("POST", host, "", site), kLocal), 403) << site;
    EXPECT_EQ(status(request("GET", host, "", site), kLocal), 403) << site;
    HttpRequest page = request("GET", host, "", site);  // a link leads to it
    page.target = "/";
    EXPECT_EQ(status(page, kLocal), 200) << site;
    page.method = "POST";
    EXPECT_EQ(status(page, kLocal), 403) << site;
  }
  EXPECT_EQ(status(request("GET", host, "", "none"), kLocal), 200);  // typed by the user
}

// Browsers send these without asking the server first.
TEST(Origin, BrowsersSendJson) {
  const std::string host = "localhost:8080", own = "http://localhost:8080";
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/problem+json"})
    EXPECT_EQ(status(request("POST", host, own, "", type), kLocal), 200) << type;
  for (const char* type : {"", "text/plain", "text/plain;application/json", "application/x-www-form-urlencoded",
                           "multipart/form-data; boundary=x", "application/jsonp", "text/json"}) {
    EXPECT_EQ(status(request("POST", host, own, "", type), kLocal), 415) << type;
    EXPECT_EQ(status(request("POST", host, "", "same-origin", type), kLocal), 415) << type;
    EXPECT_EQ(status(request("GET", host, own, "", type), kLocal), 200) << type;
  }
}

TEST(Origin, AllowedPages) {
  OriginRules rules = kLocal;
  rules.cors = {origin_of("http://localhost:3000"), origin_of("https://Chat.example:443")};
  const Admission a = admit(request("POST", "localhost:8080", "http://localhost:3000", "same-site"), rules);
  EXPECT_FALSE(a.reply.has_value());
  EXPECT_EQ(header(a.headers, "Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(header(a.headers, "Vary"), "Origin");
  expect_each(header(a.headers, "Access-Control-Expose-Headers"), {"X-Toy-Ignored"});
  EXPECT_EQ(status(request("POST", "localhost:8080", "https://chat.example", "cross-site"), rules), 200);
  EXPECT_EQ(status(request("POST", "chat.example", "https://chat.example"), rules), 200);  // behind a proxy
  EXPECT_EQ(status(request("POST", "localhost:8080", "http://chat.example"), rules), 403);
  EXPECT_EQ(status(request("POST", "localhost:8080", "https://chat.example", "", "text/plain"), rules), 415);
  EXPECT_EQ(header(admit(request("POST", "localhost:8080", "http://x"), rules).headers, "Access-Control-Allow-Origin"),
            "");
  rules.cors = {"*"};
  EXPECT_EQ(status(request("POST", "localhost:8080", "http://any.example", "cross-site"), rules), 200);
  EXPECT_EQ(status(request("POST", "evil.example", "http://any.example"), rules), 403);
}

TEST(Origin, Preflights) {
  OriginRules rules = kLocal;
  rules.cors = {"http://localhost:3000"};
  HttpRequest r = request("OPTIONS", "localhost:8080", "http://localhost:3000", "same-site", "");
  r.asked_method = "POST", r.asked_headers = "authorization,content-type,x-stainless-os";
  const Admission a = admit(r, rules);
  ASSERT_TRUE(a.reply.has_value());
  EXPECT_EQ(a.reply->status, 204);
  EXPECT_EQ(header(a.headers, "Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(header(a.reply->headers, "Access-Control-Allow-Headers"), r.asked_headers);
  expect_each(header(a.reply->headers, "Access-Control-Allow-Methods"), {"GET", "POST"});
  r.asked_headers = "a:b";
  EXPECT_EQ(header(admit(r, rules).reply->headers, "Access-Control-Allow-Headers"), "");
  r.origin = "http://evil.example";
  EXPECT_EQ(status(r, rules), 403);
  EXPECT_EQ(status(request("OPTIONS", "localhost:8080", "", "", ""), rules), 204);
}

TEST(Origin, HowAnOriginIsWritten) {
  EXPECT_EQ(origin_of("*"), "*");
  EXPECT_EQ(origin_of("HTTP://Localhost:80"), "http://localhost");
  EXPECT_EQ(origin_of("https://[::1]:8443"), "https://[::1]:8443");
  for (const char* wrong :
       {"", "localhost", "http://", "http://a/", "http://a/b", "ftp://a", "http://a:b", "null", "http://a b"})
    expect_each(testing::error_of([&] { origin_of(wrong); }), {"is not an origin", "http://localhost:3000"});
}

// On the wire: errors, streams and refusals have the headers, too.
TEST(Origin, OverTheSocket) {
  const Loopback server({.sequences = 2}, {.api_keys = {"secret"}, .cors = {"http://app.example"}});
  const std::string origin = "Origin: http://app.example\r\nContent-Type: application/json\r\n",
                    allowed = "Access-Control-Allow-Origin: http://app.example\r\n",
                    key = "Authorization: Bearer secret\r\n";
  EXPECT_NE(server.post("/v1/completions", "{}", origin).header.find(allowed), std::string::npos);       // 401
  EXPECT_NE(server.post("/v1/completions", "{", origin + key).header.find(allowed), std::string::npos);  // 400
  const std::string ask = R"({"prompt": "a", "max_tokens": 2, "stream": true})";
  const Answer stream = server.post("/v1/completions", ask, origin + key);
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.header.find(allowed), std::string::npos) << stream.header;
  EXPECT_EQ(server.post("/v1/completions", ask, "Origin: http://other.example\r\n" + key).status, 403);
  const Answer preflight = server.ask("OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                                      origin + "Access-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_NE(preflight.header.find(allowed), std::string::npos);
  EXPECT_EQ(preflight.header.find("Content-Length"), std::string::npos);  // RFC 9110: none with 204
}

// RFC 9112, 3.2: a request of HTTP/1.1 has one Host; that of a complete URL counts in its place.
TEST(Origin, EveryRequestHasOneHost) {
  const Loopback server;
  const auto status = [&](const std::string& request) {
    return server.ask(request + "Connection: close\r\n\r\n").status;
  };
  const std::string ours = "Host: localhost\r\n";
  EXPECT_EQ(status("GET /v1/models HTTP/1.1\r\n" + ours), 200);
  for (const std::string& host : {std::string(), std::string("Host:\r\n"), std::string("Host: \r\n"), ours + ours,
                                  ours + "Host: 127.0.0.1\r\n", ours + "Host:\r\n"})
    for (const std::string line : {"GET /v1/models", "GET /health", "POST /v1/completions", "OPTIONS /v1/completions",
                                   "GET http://localhost/v1/models"})
      EXPECT_EQ(status(line + " HTTP/1.1\r\n" + host), 400) << line << " " << host;
  EXPECT_EQ(status("GET /v1/models HTTP/1.0\r\n"), 200);
  EXPECT_EQ(status("GET http://localhost/v1/models HTTP/1.1\r\n" + ours), 200);
  EXPECT_EQ(status("GET http://evil.example/v1/models HTTP/1.1\r\n" + ours), 403);
  EXPECT_EQ(status("GET http://evil.example HTTP/1.1\r\n" + ours), 403);
}

TEST(Origin, ADeletedStateNeedsNoPage) {
  const Loopback server;
  const std::string attack = R"({"action":"delete","name":"victim"})", page = "Origin: http://localhost:3000\r\n";
  for (const std::string& headers :
       {page + "Content-Type: text/plain\r\n", page, std::string("Sec-Fetch-Site: same-site\r\n"),
        std::string("Sec-Fetch-Site: cross-site\r\nOrigin: null\r\n")})
    EXPECT_EQ(server.post("/v1/state", attack, headers).status, 403) << headers;
  EXPECT_EQ(
      server.ask("POST /v1/state HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
          .status,
      403);
}

}  // namespace
}  // namespace toy::serve::origin_test
